"""The Python client that the demo plays with: the copy in the server's wheel, or the client of a checkout.

Only the distribution `scoregate-client` installs `scoregate_client`: two distributions that own the same
files break each other.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoregate_client import Run, ScoregateClient, ScoregateError, encode_recording
    from scoregate_client.signing import Parameters, Target, sign_for_run
else:
    try:
        from examples.demo._client import Run, ScoregateClient, ScoregateError, encode_recording
        from examples.demo._client.signing import Parameters, Target, sign_for_run
    except ModuleNotFoundError:
        from scoregate_client import Run, ScoregateClient, ScoregateError, encode_recording
        from scoregate_client.signing import Parameters, Target, sign_for_run

__all__ = [
    "Parameters",
    "Run",
    "ScoregateClient",
    "ScoregateError",
    "Target",
    "encode_recording",
    "sign_for_run",
]
