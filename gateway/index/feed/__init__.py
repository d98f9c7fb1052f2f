"""The live feed inside: the stream of changes, its one reader, and what each listener is told of it."""
