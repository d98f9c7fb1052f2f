"""Where recordings are kept that are too large for a row of the ledger, and the check of every one that is read."""
