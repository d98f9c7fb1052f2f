"""The template environment that all pages share."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """Return a new template environment, which escapes all values and raises for missing ones."""
    return Environment(
        loader=PackageLoader("gateway.edge.docs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
