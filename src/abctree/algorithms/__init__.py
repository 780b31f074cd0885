"""The story: the paper's algorithms, free of storage, plotting, parallelism and options."""
