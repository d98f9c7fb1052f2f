"""How players show who they are, and what they do about it: their tokens."""
