"""What players keep here: names, friends, groups, and the boards they joined."""
