"""The live feed over Server-Sent Events and WebSocket."""
