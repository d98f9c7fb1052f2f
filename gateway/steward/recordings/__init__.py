"""Ends recordings whose time is over, and collects those that nothing names."""
