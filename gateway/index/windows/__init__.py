"""The windows of a board: heads, ranges, distributions, and subsets of players."""
