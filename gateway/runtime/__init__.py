"""What every process needs, whatever it does: settings, clocks, metrics, secrets on disk, and an orderly end."""
