"""Pages for browsers: the game, the references, the OpenAPI document."""
