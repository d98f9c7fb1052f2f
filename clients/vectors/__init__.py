"""Vectors that every client, and every verifier of the profile, must pass; `make` writes them."""
