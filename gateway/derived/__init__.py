"""Computed from the log and the stream of changes: statistics, trends, achievements, the export.

Two sources: the ledger's log of events, which has everything and loses nothing, and the boards' streams of changes, which
alone know ranks. Whoever reads a stream begins again from the ledger when the stream has lost something.
"""
