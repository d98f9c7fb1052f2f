"""Outgoing webhooks: what they say, how they are signed, where they may go, and their delivery."""
