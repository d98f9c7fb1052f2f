"""Freezes windows that are over, and folds standings anew after a policy changed."""
