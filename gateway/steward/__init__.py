"""Background duties: dispatches work, and keeps index and archive equal to the ledger."""
