"""Settings, clock, metrics, logs and key files: the parts that every process uses."""
