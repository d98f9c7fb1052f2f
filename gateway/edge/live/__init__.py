"""The live feed over HTTP: what a listener may ask for, and how it is told, as Server-Sent Events or by WebSocket."""
