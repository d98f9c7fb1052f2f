"""Header fields that come twice: a proxy may take one line and we the other, so no such request means anything."""

from __future__ import annotations

import pytest

from gateway.edge.auth.signatures import content_digest_of
from tests.support.attack import MALFORMED, a_run, accept, honest, refuse
from tests.support.harness import Harness
from tests.support.raw import as_bytes


@pytest.mark.parametrize("comes_first", [True, False])
async def test_S08_a_second_content_digest_is_malformed(harness: Harness, comes_first: bool):
    """Beside the one that was signed and is the body's, whichever comes first."""
    run = await a_run(harness)
    request = honest(harness, run)
    signed = f"Content-Digest: {request.headers['Content-Digest']}".encode()
    other = f"Content-Digest: {content_digest_of(b'{}')}".encode()
    raw = as_bytes(request, harness.authority)
    assert 1 == raw.count(signed)
    both = [other, signed] if comes_first else [signed, other]
    await refuse(harness, raw.replace(signed, b"\r\n".join(both)), MALFORMED)
    await accept(harness, request)
