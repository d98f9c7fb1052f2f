"""`Expect: 100-continue`: a client is told to send its body once its head has passed every check.

aiohttp would tell it so before any handler runs, and a refusal would come after the body.
"""

from __future__ import annotations

from typing import Final

from aiohttp import HttpVersion11, web

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def check_expectation(request: web.Request) -> None:
    """Raise HTTPExpectationFailed for an `Expect` other than `100-continue`. A route's `expect_handler`."""
    if request.version == HttpVersion11 and not _expects_continue(request):
        raise web.HTTPExpectationFailed


async def invite_body(request: web.Request) -> None:
    """Tell a client to send its body if it waits for that."""
    if request.version == HttpVersion11 and _expects_continue(request):
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # the answer has not begun


def _expects_continue(request: web.Request) -> bool:
    return request.headers.get("Expect", "").lower() == "100-continue"
