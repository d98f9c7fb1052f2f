"""The ledger on PostgreSQL: its connections, group commit and appends."""
