"""The boards in Redis, rebuilt from the ledger at any time: keys, Lua scripts, ranks."""
