"""Friends, groups, and who joined which board."""
