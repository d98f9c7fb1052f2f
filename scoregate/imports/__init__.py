"""Brings other leaderboards onto boards: a file for each source, all of which yield scores."""
