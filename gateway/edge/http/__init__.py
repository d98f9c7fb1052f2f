"""Reading of requests and writing of responses: bodies, strict JSON, preconditions."""
