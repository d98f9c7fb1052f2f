"""What a finding of a studio's own rule or validator comes with: a mode of its own."""

from __future__ import annotations

from typing import NamedTuple

from policies.vocabulary import Finding, Mode


class StudioFinding(NamedTuple):
    """A finding, the mode that weighs it, and whose it is."""

    mode: Mode
    validator: str
    finding: Finding
