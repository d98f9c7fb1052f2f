"""Tamper evidence: events under Merkle roots that are chained, signed, exported and proven."""
