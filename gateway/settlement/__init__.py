"""The only place where a submission changes state: one transaction, then the index."""
