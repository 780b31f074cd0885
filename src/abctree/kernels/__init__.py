"""Arrays in, arrays out.  `reference` (NumPy) is the definition, `compiled` (numba) is what runs."""
