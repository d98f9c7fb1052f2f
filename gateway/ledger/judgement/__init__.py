"""What judging stores: baselines, audits, builds, and what waits for a second look."""
