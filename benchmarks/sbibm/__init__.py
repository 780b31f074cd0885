"""The ten tasks of the sbibm benchmark, the methods compared on them, and how they are scored."""
