"""Trusted game servers: who they are, and what they write."""
