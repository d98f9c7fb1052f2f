"""Ends recordings whose retention is over, and collects those that nothing names."""
