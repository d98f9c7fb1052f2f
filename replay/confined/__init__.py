"""Processes that give up their rights before they run a game's code.

What they import, every start of a program waits for: they need nothing of `replay.simulators`.
"""
