"""The error tree of the whole product. Each class's docstring is its default message."""

from __future__ import annotations

from pathlib import Path


def printable(text: str) -> str:
    """Return `text` with escapes for what UTF-8 cannot encode, as in the name of a file that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class ScoregateError(Exception):
    """The operation could not be done."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(printable(message or (type(self).__doc__ or "").strip()))


class PolicyError(ScoregateError):
    """A policy file is wrong."""


class NoPolicies(PolicyError):
    """A folder has no policies."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: expected a directory with at least one policy file (*.yaml)")
        self.folder = folder


class SettingRefused(ValueError):
    """A setting of a policy contradicts another. `location` is its path, from the model that refuses it."""

    def __init__(self, message: str, *location: str) -> None:
        super().__init__(message)
        self.location = location


class SettingsError(ScoregateError):
    """The settings cannot work."""


class LedgerUnavailable(ScoregateError):
    """The ledger cannot take a write now; nothing was stored."""


class LedgerOverloaded(LedgerUnavailable):
    """Too many writes are waiting for the ledger; nothing was stored."""


class LeaseLost(ScoregateError):
    """Another steward has the lease of this lane or duty; nothing was stored."""


class HistoryTooLong(ScoregateError):
    """Too many submissions counted on the board to fold it here."""


class LedgerTampered(ScoregateError):
    """The ledger differs from what was sealed."""


class ProofInvalid(ScoregateError):
    """The proof does not hold."""


class TrailUnreadable(ProofInvalid):
    """The file is no exported audit trail."""


class RecordingsUnavailable(LedgerUnavailable):
    """The store of large recordings cannot be used now; nothing was acknowledged."""


class RecordingLost(ScoregateError):
    """A stored recording is missing or damaged."""


class AssetMismatch(ScoregateError):
    """The content of an asset does not have the digest that was named."""


class IndexUnavailable(ScoregateError):
    """Redis did not answer in time; the ledger is not affected."""


class QueueUnavailable(ScoregateError):
    """RQ or its Redis did not answer; the work stays due in the ledger."""


class IndexNotWhole(IndexUnavailable):
    """Redis does not have the whole board; the ledger does."""


class SketchUnreadable(IndexUnavailable):
    """The index holds a sketch that Scoregate did not write."""


class RebuildRefused(ScoregateError):
    """The board is already being rebuilt."""


class RebuildLost(IndexUnavailable):
    """A rebuild lost its work: Redis was emptied, or the rebuild was silent for too long."""


class ArchiveRefused(ScoregateError):
    """The window cannot be archived now."""


class StateConflict(ScoregateError):
    """The submission is no longer in the state this decision was made for."""


class CaseOvertaken(StateConflict):
    """The submission has changed since the decision's maker last saw it."""


class NotTheirs(StateConflict):
    """Somebody else has to make this decision."""


class SeniorNeeded(StateConflict):
    """A senior moderator has to make this decision."""


class CaseClaimed(StateConflict):
    """Another moderator is in the case."""


class CaseGone(StateConflict):
    """The submission does not wait for a moderator."""


class ViewsFull(ScoregateError):
    """A moderator has as many saved views as there may be."""


class CaseForOthers(ScoregateError):
    """The case is not for this moderator."""


class AccountConflict(ScoregateError):
    """The account of a moderator cannot be changed so; nothing was stored."""


class AccountOvertaken(ScoregateError):
    """The account of a moderator has changed since it was read; nothing was stored."""


class ProviderUnavailable(ScoregateError):
    """The identity provider does not answer as it should; nobody was logged in."""


class IdentityRefused(ScoregateError):
    """What a login through the identity provider brought does not hold; its text is one word for logs."""


class NameTaken(ScoregateError):
    """Another player has a name that looks like it; nothing was stored."""


class IdentityTaken(ScoregateError):
    """The identity is another player's; nothing was stored."""


class IdentitiesFull(ScoregateError):
    """The player has as many identities as there may be; nothing was stored."""


class LastWayIn(ScoregateError):
    """Without this identity nobody could sign in as the player any more; nothing was stored."""


class CredentialUsed(ScoregateError):
    """A credential that is good once was used before; nothing was stored."""


class NameOvertaken(ScoregateError):
    """The player has another name by now; nothing was stored."""


class NotRenamed(ScoregateError):
    """The player cannot be renamed so; nothing was stored."""


class FriendsFull(ScoregateError):
    """The player already follows as many players as allowed; nothing was stored."""


class KeyRevoked(ScoregateError):
    """The key no longer writes; nothing was stored."""


class OperationReused(ScoregateError):
    """The operation id was already used for other content; nothing was stored. Take a new id for it."""


class NonceReused(ScoregateError):
    """The nonce was already used with another request; nothing was stored."""
