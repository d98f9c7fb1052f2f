"""Tamper evidence: events as canonical bytes, under Merkle roots that are chained, signed, exported and proven."""
