"""structlog without what it loads to draw tracebacks in colours: our log lines are JSON.

rich, pygments and attrs make 80 modules, 5 MiB and a twentieth of a part's start. structlog does without them
where they are not installed. They are, since commands draw tables with rich, and structlog has no switch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["structlog"]


@contextmanager
def _without(*packages: str) -> Iterator[None]:
    """Have imports not find these packages, unless something has loaded them already.

    None in `sys.modules` stops an import (The Python Language Reference, 5.3.1).
    """
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in packages if name not in modules]
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]


with _without("colorama", "greenlet", "rich"):
    import structlog
