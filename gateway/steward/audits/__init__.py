"""Draws runs to verify again, and finds runs that count without having been verified."""
