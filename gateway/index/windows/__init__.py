"""The windows of a board: heads, distributions, subsets of players."""
