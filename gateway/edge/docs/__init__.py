"""Pages for a browser: the game, the references, the OpenAPI document."""
