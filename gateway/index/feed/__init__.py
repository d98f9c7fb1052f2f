"""The stream of changes: its one reader, and what each listener hears."""
