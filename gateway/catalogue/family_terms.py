"""What the ledger has to know of a family to open and change its boards."""

from __future__ import annotations

from gateway.ledger.boards.board_rows import FamilyTerms
from policies.family import Family


def terms_of(family: Family) -> FamilyTerms:
    """Return the terms of a family under the policy in force."""
    policy = family.policy
    return FamilyTerms(
        family.name, family.digest, tuple(sorted(policy.metadata_filters)), policy.names_free_after_delete
    )
