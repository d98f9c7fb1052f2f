"""The live feed: readers of the streams of changes, listeners and their events."""
