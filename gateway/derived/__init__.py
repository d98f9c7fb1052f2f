"""What is derived from what happened: statistics, trends, achievements, webhooks, the export. All of it idempotent.

Two sources: the ledger's log of events, which has everything and loses nothing, and the boards' streams of changes, which
alone know ranks. Whoever reads a stream begins again from the ledger when the stream has lost something.
"""
