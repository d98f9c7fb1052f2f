"""Keeps the index equal to the ledger: rebuilds, reconciles, evicts cold boards."""
