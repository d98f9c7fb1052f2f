"""What judging keeps in the ledger: what was learnt, who waits for which look, and what was found beside the verdict."""
