"""Outgoing webhooks: what is told, how it is signed, where it may go, and that it gets there."""
