"""What every section of a policy is made of: names, scores, and a model that takes nothing it does not know."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from policies.vocabulary import SCORE_LIMIT

Score = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
SegmentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
BuildName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


class SortOrder(StrEnum):
    """Which scores rank first."""

    DESCENDING = "descending"
    ASCENDING = "ascending"


class PolicySection(BaseModel):
    """A section of the policy: strict, closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
