"""The Python client of a Scoregate gateway."""

from .batch_models import Batch, BatchItem, TrailEvent, TrailFile
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
    Case,
    CaseHolding,
    Decided,
    Finding,
    QueueCounts,
    QueuedCase,
    SavedView,
    Surroundings,
)
from .moderator import ModeratorClient
from .player_models import Ban, Invitation, NamedPlayer, Person, PlayedSubmission, Profile, Rename, WhoAmI
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
    "Invitation",
    "ModeratorClient",
    "NamedPlayer",
    "Person",
    "PlayedSubmission",
    "Player",
    "Profile",
    "Question",
    "QueueCounts",
    "QueuedCase",
    "Rename",
    "Reveal",
    "Run",
    "SavedView",
    "ScoregateClient",
    "ScoregateError",
    "ServerClient",
    "StandingPage",
    "Submission",
    "Surroundings",
    "TrailEvent",
    "TrailFile",
    "WhoAmI",
    "encode_recording",
    "sign_board_name",
]
