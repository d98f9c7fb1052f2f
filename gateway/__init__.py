"""Everything with a socket: the edge, the index in Redis, the ledger in SQL, and what keeps them in step."""
