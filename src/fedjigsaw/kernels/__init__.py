"""Numerical kernels: NumPy in, NumPy out, nothing about federation. Internal."""
