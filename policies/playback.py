"""The section of a policy about watching: the page that plays a recording, and the names of buttons."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.fields import PolicySection

SELF: Final = "'self'"
"""A player page of the edge itself, as a content security policy names it."""

# The origin goes into a header of the console, so nothing but a plain host may stand there.
_PAGE: Final = re.compile(
    r"(?P<origin>https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?"
    r"|http://(?:localhost|127\.0\.0\.1)(?::[0-9]{1,5})?)?"
    r"/(?:[A-Za-z0-9._~%-][A-Za-z0-9._~%/-]*)?(?:\?[A-Za-z0-9._~%/=&-]*)?"
)

ButtonName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,24}$")]


class Playback(PolicySection):
    """The studio's page that plays a recording for moderators, and what the bits of an input word are called.

    `buttons` names the bits from the lowest on.
    """

    page: Annotated[str, Field(max_length=500)] | None = None
    buttons: Annotated[tuple[ButtonName, ...], Field(max_length=32, strict=False)] = ()

    @field_validator("page")
    @classmethod
    def _plain_page(cls, page: str | None) -> str | None:
        if page is not None and not _PAGE.fullmatch(page):
            raise ValueError(
                "expected a path of the edge such as `/arcade/playback.html`, or the https address of a page"
            )
        return page

    @property
    def frame_source(self) -> str | None:
        """Return the source that the console's `frame-src` names: the page's origin; None without a page."""
        if self.page is None:
            return None
        found = _PAGE.fullmatch(self.page)
        assert found is not None
        return found["origin"] or SELF
