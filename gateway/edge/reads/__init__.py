"""Reading boards: entries, windows, distributions, the archive and the past."""
