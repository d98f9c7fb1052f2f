"""The boards of a deployment: those of files in memory, those of families read when they are asked for."""
