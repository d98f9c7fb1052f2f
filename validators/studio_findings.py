"""Findings of a studio's own rules and validators, each with its own mode."""

from __future__ import annotations

from typing import NamedTuple

from policies.vocabulary import Finding, Mode


class StudioFinding(NamedTuple):
    """A finding, the mode that weighs it, and the validator that made it."""

    mode: Mode
    validator: str
    finding: Finding
