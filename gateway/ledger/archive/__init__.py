"""The archive: windows that are over, with their final ranks, one whole revision at a time."""
