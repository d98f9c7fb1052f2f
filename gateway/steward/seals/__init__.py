"""Seals the log of events."""
