"""The bodies of requests in which players show who they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.edge.wire.bodies import NAME_SENT, Body


class SignIn(Body):
    """A credential of a provider, and the name of the player if it is a new one."""

    provider: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    credential: Annotated[str, Field(min_length=1, max_length=16_384, repr=False)]
    name: Annotated[str, Field(min_length=1, max_length=NAME_SENT)] | None = None


class WishedName(Body):
    """The name that a player wishes for."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_SENT)]
