"""Standings: folded from promoted submissions, and ranked by SQL alone."""
