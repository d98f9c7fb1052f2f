"""Boards among friends, and boards of groups."""
