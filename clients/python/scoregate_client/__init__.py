"""The Python client of a Scoregate gateway."""

from .aiohttp_transport import AiohttpTransport
from .batch_models import Batch, BatchItem, TrailEvent, TrailFile
from .blocking_transport import BlockingTransport
from .claims import claim, commitment
from .client import ScoregateClient
from .connection import ClientOptions
from .errors import DamagedAsset, ScoregateError
from .feed import FeedEvent
from .figures import Figures
from .models import (
    Appeal,
    Board,
    BoardEntry,
    BoardOutcome,
    BoardPage,
    BoardStanding,
    Build,
    Entry,
    EntryPage,
    Family,
    FamilyBoard,
    FamilyBoardPage,
    Friend,
    Friends,
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
from .offline_queue import OfflineQueue
from .player_models import (
    Ban,
    Identity,
    Invitation,
    Merge,
    NamedPlayer,
    Person,
    PlayedSubmission,
    Profile,
    Rename,
    WhoAmI,
)
from .queue_entries import Flushed, QueueEntry, QueueOutcome
from .recording import Recorder, encode_recording, recording_digest
from .server import ServerClient
from .signing import sign_board_name
from .sync_clients import SyncModeratorClient, SyncScoregateClient, SyncServerClient
from .transport import HttpAnswer, HttpRequest, HttpStream, Transport, Unanswered, Unconnected

__all__ = [
    "AiohttpTransport",
    "Appeal",
    "Ban",
    "Batch",
    "BatchItem",
    "BlockingTransport",
    "Board",
    "BoardEntry",
    "BoardOutcome",
    "BoardPage",
    "BoardStanding",
    "Build",
    "Case",
    "CaseHolding",
    "ClientOptions",
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
    "Flushed",
    "Friend",
    "Friends",
    "HttpAnswer",
    "HttpRequest",
    "HttpStream",
    "Identity",
    "Invitation",
    "Merge",
    "ModeratorClient",
    "NamedPlayer",
    "OfflineQueue",
    "Person",
    "PlayedSubmission",
    "Player",
    "Profile",
    "Question",
    "QueueCounts",
    "QueueEntry",
    "QueueOutcome",
    "QueuedCase",
    "Recorder",
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
    "SyncModeratorClient",
    "SyncScoregateClient",
    "SyncServerClient",
    "TrailEvent",
    "TrailFile",
    "Transport",
    "Unanswered",
    "Unconnected",
    "WhoAmI",
    "claim",
    "commitment",
    "encode_recording",
    "recording_digest",
    "sign_board_name",
]
