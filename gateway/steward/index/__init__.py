"""Keeps the index equal to the ledger."""
