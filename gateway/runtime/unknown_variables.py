"""Finds variables of the environment that look like settings and are none, such as misspelt ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

from gateway.runtime.failpoints import VARIABLE as FAILPOINT
from gateway.runtime.settings import Settings

PREFIX: Final = "SCOREGATE_"

SHOWN: Final = 20
"""Most variables that are told."""

FOR_OTHERS: Final = frozenset({FAILPOINT, "SCOREGATE_FILES"})
"""Variables for others than the settings: for tests, and for a simulator's program."""

_OF_A_SERVICE: Final = re.compile(
    r"SCOREGATE_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)=.*|"
    r"PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?=.*|PORT=(?:tcp|udp|sctp)://.*)",
    re.DOTALL,
)
"""Variables by which Kubernetes tells every container of services named `scoregate` and `scoregate-…`.

Whoever writes 8080 for a port means a setting; Kubernetes writes tcp://10.0.0.1:8080.
"""


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that no setting reads, each with the nearest one that there is."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    candidates = sorted(name for name in environment if name.upper().startswith(PREFIX))
    unknown = [name for name in candidates if name.upper() not in known | FOR_OTHERS]
    misspelt = [name for name in unknown if not _OF_A_SERVICE.fullmatch(f"{name}={environment[name]}")]
    return {name: _nearest(name.upper(), known) for name in misspelt[:SHOWN]}


def sentence_of(name: str, nearest: str | None) -> str:
    """Return what a command says of such a variable."""
    return f"{name}: unknown setting, without effect" + (f"; did you mean {nearest}?" if nearest else "")


def _nearest(name: str, known: set[str]) -> str | None:
    endings = [each.removeprefix(PREFIX) for each in sorted(known)]
    meant = difflib.get_close_matches(name.removeprefix(PREFIX), endings, n=1)
    return f"{PREFIX}{meant[0]}" if meant else None
