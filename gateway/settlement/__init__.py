"""Changes of submissions' states: one transaction in the ledger, then the index."""
