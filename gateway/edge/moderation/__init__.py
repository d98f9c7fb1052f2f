"""What moderators do: the queue, the evidence, their decisions."""
