"""Reads requests and writes responses: bodies, strict JSON, preconditions."""
