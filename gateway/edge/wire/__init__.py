"""The bodies of the interface, as models: what comes in, and what goes out."""
