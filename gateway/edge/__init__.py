"""The HTTP edge: one table of routes, handlers that read as steps, a problem type for each refusal."""
