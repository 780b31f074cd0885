"""Arrays in, arrays out, compiled by numba; tests/kernel_definitions.py defines them in NumPy."""
