"""What draws points of the cube and knows its density."""
