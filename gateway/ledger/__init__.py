"""The SQL truth: an append-only log of what happened to every submission, and the projections folded from it."""
