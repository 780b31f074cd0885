"""The paper: Algorithms 1 to 4, and what they are parametrised by."""
