"""The models of bodies: what comes in, and what goes out."""
