"""How a run is executed, kept, stopped and told."""
