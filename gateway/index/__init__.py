"""The index in Redis: boards, what is pending, limits and baselines. Disposable: rebuilt from the ledger at any time."""
