"""Files: formats, tables, rows of JSON lines, atomic writes, locks. Internal."""
