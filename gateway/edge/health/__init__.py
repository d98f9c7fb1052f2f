"""Whether an edge is alive and ready, and what it tells operators."""
