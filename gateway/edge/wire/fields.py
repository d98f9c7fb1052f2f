"""The types of fields that bodies and answers share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from policies.vocabulary import SCORE_LIMIT

ExactScore = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
Count = Annotated[int, Field(ge=0, le=SCORE_LIMIT)]
PlayerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
SubmissionId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,64}$")]
Version = Annotated[int, Field(ge=1, le=SCORE_LIMIT)]
OperationId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Secret = Annotated[str, Field(repr=False)]
"""A text that is left out of every repr, so that no log can hold it."""
RecordingDigest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
"""The SHA-256 of a recording's bytes."""
SegmentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
SegmentValue = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")]
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(frozen=True, defer_build=True)
