"""Breakages made by hand, each with the tests that should notice it: `python -m tests.mutants`."""
