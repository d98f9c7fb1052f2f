"""The HTTP edge: routes as one table, handlers that read as a list of steps, every refusal a stable problem."""
