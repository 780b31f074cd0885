"""Arrays in, arrays out: `reference` (NumPy) is the definition, `compiled` (numba) what runs."""
