"""Positions of the consumers of the log, and what they have computed."""
