"""Reproducible benchmarks. Speed is a ratio to a bare baseline in the same run on the same machine."""
