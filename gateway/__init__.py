"""Everything with a socket: the edge, the boards in Redis, the ledger in SQL, the steward, and settlement between them."""
