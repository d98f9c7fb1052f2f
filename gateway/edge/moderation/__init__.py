"""Moderators: the queue of what is held, the evidence, and their decisions."""
