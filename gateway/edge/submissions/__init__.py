"""A run's way in: open it, submit its score, reveal its recording."""
