"""Computed from the log and the stream of changes: statistics, trends, achievements, the export.

There are two sources: the ledger's log of events, which is complete, and the boards' streams of changes,
which alone have ranks. A consumer of a stream catches up from the ledger when the stream has lost something.
"""
