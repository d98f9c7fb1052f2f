"""What is derived from the log of events, as the ledger keeps it: how far each consumer is, and what it has made."""
