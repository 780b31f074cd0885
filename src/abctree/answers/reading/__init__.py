"""Reading a table: which draws, moved how, and whether to believe them."""
