"""The ledger on SQLite: its store, its reads and its writer."""
