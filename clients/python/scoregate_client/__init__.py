"""The Python client of a Scoregate gateway."""

from .client import ScoregateClient, ServerClient
from .errors import DamagedAsset, ScoregateError
from .feed import FeedEvent
from .figures import Figures
from .models import (
    Appeal,
    BoardEntry,
    BoardOutcome,
    BoardStanding,
    Entry,
    EntryPage,
    Family,
    FamilyBoard,
    FamilyBoardPage,
    Player,
    Question,
    Reveal,
    Run,
    StandingPage,
    Submission,
)
from .moderation_models import (
    Ban,
    Batch,
    BatchItem,
    Case,
    CaseHolding,
    Decided,
    Finding,
    PlayedSubmission,
    Profile,
    QueueCounts,
    QueuedCase,
    TrailEvent,
    TrailFile,
    WhoAmI,
)
from .moderator import ModeratorClient
from .recording import encode_recording
from .signing import sign_board_name

__all__ = [
    "Appeal",
    "Ban",
    "Batch",
    "BatchItem",
    "BoardEntry",
    "BoardOutcome",
    "BoardStanding",
    "Case",
    "CaseHolding",
    "DamagedAsset",
    "Decided",
    "Entry",
    "EntryPage",
    "Family",
    "FamilyBoard",
    "FamilyBoardPage",
    "FeedEvent",
    "Figures",
    "Finding",
    "ModeratorClient",
    "PlayedSubmission",
    "Player",
    "Profile",
    "Question",
    "QueueCounts",
    "QueuedCase",
    "Reveal",
    "Run",
    "ScoregateClient",
    "ScoregateError",
    "ServerClient",
    "StandingPage",
    "Submission",
    "TrailEvent",
    "TrailFile",
    "WhoAmI",
    "encode_recording",
    "sign_board_name",
]
