"""What every process needs: settings, clock, metrics and logs, secrets on disk."""
