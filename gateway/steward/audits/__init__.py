"""Draws runs to verify again, and finds what counts without having been verified."""
