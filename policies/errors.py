"""The error tree of the whole product; each docstring is the default message."""

from __future__ import annotations


class ScoregateError(Exception):
    """Something we were asked to do could not be done."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class PolicyError(ScoregateError):
    """A policy file is wrong."""


class SettingRefused(ValueError):
    """A setting of a policy that does not go with another. `location` is where it stands, from the model that says so."""

    def __init__(self, message: str, *location: str) -> None:
        super().__init__(message)
        self.location = location


class SettingsError(ScoregateError):
    """The settings cannot work."""


class LedgerUnavailable(ScoregateError):
    """The ledger cannot take a write now; nothing was stored."""


class LedgerOverloaded(LedgerUnavailable):
    """Too much waits for the ledger; nothing was stored."""


class HistoryTooLong(ScoregateError):
    """Too many submissions counted on the board for it to be folded here."""


class LedgerTampered(ScoregateError):
    """The ledger is not what was sealed."""


class ProofInvalid(ScoregateError):
    """The proof does not hold."""


class RecordingsUnavailable(LedgerUnavailable):
    """The store of large recordings cannot be used now; nothing was acknowledged."""


class RecordingLost(ScoregateError):
    """A recording is missing from where we stored it, or is no longer what was stored."""


class IndexUnavailable(ScoregateError):
    """Redis did not answer in time; the ledger is not affected."""


class QueueUnavailable(ScoregateError):
    """RQ or its Redis did not answer; what it was to do stays due in the ledger."""


class IndexNotWhole(IndexUnavailable):
    """The board is not in Redis, or not all of it; the ledger has it."""


class SketchUnreadable(IndexUnavailable):
    """The index holds a sketch that we never wrote."""


class RebuildRefused(ScoregateError):
    """The board is being rebuilt already."""


class RebuildLost(IndexUnavailable):
    """What a rebuild had built is gone: Redis was emptied, or did not hear of the rebuild for too long."""


class ArchiveRefused(ScoregateError):
    """The window cannot be archived now."""


class StateConflict(ScoregateError):
    """The submission is no longer in the state this decision was made for."""


class CaseOvertaken(StateConflict):
    """Something happened to the submission since this decision's maker last saw it."""


class NameTaken(ScoregateError):
    """Another player has a name that looks like it; nothing was stored."""


class FriendsFull(ScoregateError):
    """The player follows as many players as one may; nothing was stored."""


class KeyRevoked(ScoregateError):
    """The key no longer writes; nothing was stored."""


class OperationReused(ScoregateError):
    """The operation id was used before, for something else; nothing was stored."""


class NonceReused(ScoregateError):
    """The nonce came before with another request; nothing was stored."""
