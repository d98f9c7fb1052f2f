"""The commands of `scoregate`, a file for each group. They parse, wire and call; what is done is done elsewhere."""
