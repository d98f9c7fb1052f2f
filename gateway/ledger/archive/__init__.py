"""Windows that are over, with their final ranks."""
