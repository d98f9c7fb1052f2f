"""The Python client of a Scoregate gateway."""

from .client import ScoregateClient, ServerClient
from .errors import DamagedAsset, ScoregateError
from .feed import FeedEvent
from .models import (
    BoardEntry,
    BoardOutcome,
    BoardStanding,
    Entry,
    EntryPage,
    Family,
    FamilyBoard,
    FamilyBoardPage,
    Player,
    Reveal,
    Run,
    StandingPage,
    Submission,
)
from .recording import encode_recording
from .signing import sign_board_name

__all__ = [
    "BoardEntry",
    "BoardOutcome",
    "BoardStanding",
    "DamagedAsset",
    "Entry",
    "EntryPage",
    "Family",
    "FamilyBoard",
    "FamilyBoardPage",
    "FeedEvent",
    "Player",
    "Reveal",
    "Run",
    "ScoregateClient",
    "ScoregateError",
    "ServerClient",
    "StandingPage",
    "Submission",
    "encode_recording",
    "sign_board_name",
]
