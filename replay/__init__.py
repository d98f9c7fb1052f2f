"""Does the recording give the claimed score? Decodes it, plays it in a sandbox, and compares.

`recording` reads the container, `simulators` runs the game's own code, `verify` turns both into a verdict.
Everything here is pure or behind the `simulators` port; only the worker process knows the rest of the
product.
"""
