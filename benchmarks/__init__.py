"""Query efficiency and speed, measured: ``python -m benchmarks.<name>``."""
