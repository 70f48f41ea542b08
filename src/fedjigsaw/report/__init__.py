"""Text descriptions of files, and pictures."""
