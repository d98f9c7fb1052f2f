"""Reads boards: entries, windows, distributions, archive, history."""
