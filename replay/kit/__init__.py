"""Checks that a simulator is deterministic, and what it costs (`scoregate sim`).

`runs` reads what was played, `look` says what a module contains, `settings` are the ways it is run in, `check` runs it
in all of them, `budget` says what limits to set, `verdict` what the gateway would say of one run. Nothing of it is used
when a submission is judged.
"""
