"""Health checks and metrics of an edge: liveness, readiness, gauges, the lag of the index."""
