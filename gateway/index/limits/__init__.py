"""Rate limits and counts of what was refused, in Redis."""
