"""The Python client of a Scoregate gateway."""

from scoregate_client.client import ScoregateClient, ServerClient
from scoregate_client.errors import ScoregateError
from scoregate_client.feed import FeedEvent
from scoregate_client.models import Entry, EntryPage, Player, Reveal, Run, Submission
from scoregate_client.recording import encode_recording

__all__ = [
    "Entry",
    "EntryPage",
    "FeedEvent",
    "Player",
    "Reveal",
    "Run",
    "ScoregateClient",
    "ScoregateError",
    "ServerClient",
    "Submission",
    "encode_recording",
]
