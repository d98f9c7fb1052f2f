"""The Python client of the demonstration: the wheel has a copy under this package's name, a checkout the client itself.

`scoregate_client` belongs to the distribution `scoregate-client` alone: two that install the same files break each other.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scoregate_client import Run, ScoregateClient, ScoregateError, encode_recording
    from scoregate_client.signing import Parameters, Target, sign_for_run
else:
    try:
        from scoregate.demo._client import Run, ScoregateClient, ScoregateError, encode_recording
        from scoregate.demo._client.signing import Parameters, Target, sign_for_run
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
