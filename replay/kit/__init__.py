"""Checks that a simulator is deterministic, and measures its cost (`scoregate sim`).

`runs` reads played runs, `remarks` lists what a module contains, `engine_settings` are the ways to run it,
`check` tries all of them, `costs` proposes limits, and `verdict` gives the gateway's verdict on a run.
Judging submissions uses none of it.
"""
