"""What people look at: inspection of files, pictures, reports."""
