"""Files: formats, tables, atomic writes, locks. Internal."""
