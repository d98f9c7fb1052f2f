"""The error tree of the whole product; each docstring is the default message."""

from __future__ import annotations


class ScoregateError(Exception):
    """Something we were asked to do could not be done."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class PolicyError(ScoregateError):
    """A policy file is wrong."""


class SettingsError(ScoregateError):
    """The settings cannot work."""


class LedgerUnavailable(ScoregateError):
    """The ledger cannot take a write now; nothing was stored."""


class LedgerOverloaded(LedgerUnavailable):
    """The ledger's queue is full; nothing was stored."""


class IndexUnavailable(ScoregateError):
    """Redis did not answer in time; the ledger is not affected."""


class StateConflict(ScoregateError):
    """The submission is no longer in the state this decision was made for."""
