"""What players set: their names, friends, groups, and the boards they join."""
