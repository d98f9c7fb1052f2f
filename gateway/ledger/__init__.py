"""The truth in SQL: an append-only log of every submission, and what is folded from it."""
