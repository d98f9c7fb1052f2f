"""The ledger on SQLite: its writer thread, group commit and appends."""
