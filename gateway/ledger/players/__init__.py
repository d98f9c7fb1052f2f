"""Players: friends, groups, and the boards they joined."""
