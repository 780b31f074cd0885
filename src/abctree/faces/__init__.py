"""Where abctree meets the world: the command line, plots, export."""
