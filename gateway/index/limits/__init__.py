"""Rate limits, known histories, open runs, and counts of refusals."""
