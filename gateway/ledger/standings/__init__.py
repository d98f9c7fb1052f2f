"""Standings: folded from what is promoted, and read by rank from SQL alone."""
