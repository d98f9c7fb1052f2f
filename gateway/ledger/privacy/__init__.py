"""What the ledger has of a player: exported, and erased."""
