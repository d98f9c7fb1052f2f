"""The Python client of a Scoregate gateway."""

from .client import ScoregateClient, ServerClient
from .errors import ScoregateError
from .feed import FeedEvent
from .models import Entry, EntryPage, Player, Reveal, Run, Submission
from .recording import encode_recording

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
