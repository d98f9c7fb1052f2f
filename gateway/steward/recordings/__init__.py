"""Ends recordings whose time is over, and removes those that nothing names."""
