"""A player's way in: open a run, submit its score, reveal its recording."""
