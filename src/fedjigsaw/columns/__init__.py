"""Internal: columns of a file as numbers. NumPy and pyarrow in, NumPy out."""
