"""The HTTP edge: its routes, their handlers, and the problem type of each refusal."""
