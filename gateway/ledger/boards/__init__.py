"""Boards of families: the rows and events of their lives, lists of them, and how much each is played."""
