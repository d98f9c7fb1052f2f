"""The ledger on SQLite."""
