"""Numerical kernels: NumPy arrays in, NumPy arrays out, nothing about federation. Internal."""
