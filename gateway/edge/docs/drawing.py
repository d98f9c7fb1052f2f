"""How the pages are drawn: one set of rules for all templates."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """Return a new environment of the templates: what is inserted is escaped, and what is missing is an error."""
    return Environment(
        loader=PackageLoader("gateway.edge.docs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
