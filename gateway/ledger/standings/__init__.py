"""Standings: folded from what is promoted, and ranked by SQL alone."""
