"""The parts of every section of a policy: names, scores, and a strict base model."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from policies.vocabulary import SCORE_LIMIT

Score = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")]
BoardName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,47}(\.[A-Za-z0-9_-]{1,64})?$")]
SegmentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
BuildName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


class SortOrder(StrEnum):
    """The order of values: which of them rank first."""

    DESCENDING = "descending"
    ASCENDING = "ascending"


class PolicySection(BaseModel):
    """A section of a policy: strict, closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
