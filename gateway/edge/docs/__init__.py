"""What people open in a browser: the game, the references, and the OpenAPI document."""
