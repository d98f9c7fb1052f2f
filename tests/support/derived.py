"""Driving what is derived, step by step."""

from __future__ import annotations

from gateway.derived.derivations import Derivations


async def catch_up(derivations: Derivations) -> int:
    """How much had an effect until nothing was left to derive."""
    done = 0
    while more := await derivations.follow_log() + await derivations.follow_changes():
        done += more
    return done
