"""Reproducible benchmarks. Speed is told as a ratio to something bare, measured in the same run on the same machine."""
