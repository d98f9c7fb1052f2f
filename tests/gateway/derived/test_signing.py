"""Signatures of webhooks, byte for byte as Standard Webhooks 1.0 describes them."""

from __future__ import annotations

import base64
import hashlib
import hmac

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.derived.webhooks.webhook_signatures import SECRET_BYTES, new_secret, signed_headers, written


def test_the_example_of_the_standard_is_signed_as_there():
    """The key, id, time and body of the reference libraries' example give their signature."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', at_s=1_614_265_330)
    expected = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert expected == headers


@settings(deadline=None)
@given(
    secret=st.binary(min_size=1, max_size=64),
    event_id=st.from_regex(r"evt_[0-9a-f]{32}", fullmatch=True),
    body=st.text().map(lambda text: text.encode("utf-8", "replace")),
    at_s=st.integers(0, 253_402_300_799),
)
def test_a_signature_is_the_hmac_of_id_time_and_body(secret, event_id, body, at_s):
    """It covers `<id>.<timestamp>.<body>` with HMAC-SHA256, whatever the body says and whenever it is sent."""
    content = b".".join((event_id.encode(), str(at_s).encode(), body))
    digest = hmac.new(secret, content, hashlib.sha256).digest()
    signature = signed_headers(secret, event_id, body, at_s=at_s)["webhook-signature"]
    assert f"v1,{base64.b64encode(digest).decode()}" == signature


def test_secrets_are_new_and_of_the_standards_length():
    """A secret has 24 to 64 bytes and is written with the standard's prefix."""
    first, second = new_secret(), new_secret()
    assert first != second
    assert SECRET_BYTES == len(base64.b64decode(written(first).removeprefix("whsec_"))) == len(first)
