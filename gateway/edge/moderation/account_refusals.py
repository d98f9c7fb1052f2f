"""Turns what the ledger refuses of accounts into problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.edge.problems import Problem, ProblemType
from policies.errors import AccountConflict, AccountOvertaken


@contextmanager
def account_refusals_as_problems() -> Iterator[None]:
    """Raise `state-conflict` and `precondition-failed` for what the block raises."""
    try:
        yield
    except AccountConflict as conflict:
        raise Problem(ProblemType.STATE_CONFLICT, str(conflict)) from None
    except AccountOvertaken:
        detail = "the account has changed since you read it; read it again"
        raise Problem(ProblemType.PRECONDITION_FAILED, detail) from None
