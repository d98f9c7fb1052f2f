"""HTTP itself: the application and its routes, reading requests, writing responses, and every problem type."""
