"""The JSON-lines protocol, version 1: a program's question, and the meaning of its answer.

An answer is trusted only for its shape: one strict JSON object with the expected fields and numbers in range.
Any other answer is a fault of the program.
"""

from __future__ import annotations

import base64
import json
from enum import IntEnum
from typing import Annotated, Any, Literal, Never

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.vocabulary import Reason
from replay.simulators import (
    MalformedRecording,
    Simulation,
    SimulationOutcome,
    SimulationRequest,
    SimulatorFault,
    printable,
)

VERSION = 1
ANSWER_BYTES = 16_384
"""Room for an answer without its checkpoints. Sixteen statistics with long names need a tenth of it."""
CHECKPOINT_BYTES = 32
"""Room for a checkpoint in an answer: 16 digits, quotes, a comma, and blanks."""

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class ProtocolRule(IntEnum):
    """The rules of the protocol, as numbered in the `broken_rule` of a fault."""

    STRICT_JSON = 11
    FIELDS = 12
    TICKS = 13
    STATS = 14
    CHECKPOINTS = 15
    ONE_LINE = 16
    OUTPUT = 17
    ANOTHER_QUESTION = 18


class BrokenProtocolRule(Exception):
    """The program broke a rule of the protocol."""

    def __init__(self, rule: ProtocolRule) -> None:
        super().__init__(rule.name)
        self.rule = rule

    def as_fault(self) -> SimulatorFault:
        """Return the fault that reports it."""
        return SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": int(self.rule)})


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Answer(_Strict):
    id: int


class _Played(_Answer):
    ticks: Annotated[int, Field(ge=0, lt=2**32)]
    is_over: bool
    score: Number
    stats: dict[str, Number]
    state_hash: Hash | None = None
    checkpoints: list[Hash] | None = None


class _Failed(_Answer):
    fault: str


class _NotOfThisGame(_Answer):
    malformed: Literal[True]


def question(request: SimulationRequest, number: int, asset: str | int | None = None) -> bytes:
    """Return the line that asks for the simulation. `number` identifies the question in the answer.

    `asset` says where the board's asset is, if it has one: its path, or the number of bytes after the line.
    """
    fields: dict[str, Any] = {
        "version": VERSION,
        "id": number,
        "seed": str(request.seed),
        "ticks": request.ticks,
        "checkpoint_ticks": request.checkpoint_ticks,
        "inputs": _base64(request.inputs) if request.inputs else None,
        "recording": _base64(request.recording),
    }
    # A simulator of a board without content gets the line that it got before there was any.
    if request.parameters:
        fields["parameters"] = json.loads(request.parameters)
    if asset is not None:
        fields["asset"] = asset
    return json.dumps(fields).encode() + b"\n"


def answer_limit(request: SimulationRequest) -> int:
    """Return the maximum bytes of an answer, with its line feed."""
    checkpoints = request.ticks // request.checkpoint_ticks if request.checkpoint_ticks else 0
    return ANSWER_BYTES + CHECKPOINT_BYTES * checkpoints


def meaning(line: bytes, request: SimulationRequest, number: int) -> SimulationOutcome:
    """Return what a program's answer to question `number` means. Raises BrokenProtocolRule."""
    answer = _answer(_strict(line))
    if answer.id != number:
        raise BrokenProtocolRule(ProtocolRule.ANOTHER_QUESTION)
    match answer:
        case _Failed():
            return SimulatorFault(Reason.SIMULATOR_TRAPPED, said=printable(answer.fault))
        case _NotOfThisGame():
            return MalformedRecording()
        case _Played():
            return _simulation(answer, request)


def _answer(document: dict[str, Any]) -> _Played | _Failed | _NotOfThisGame:
    kind = _Failed if "fault" in document else _NotOfThisGame if "malformed" in document else _Played
    try:
        return kind.model_validate(document)
    except ValidationError:
        raise BrokenProtocolRule(ProtocolRule.FIELDS) from None


def _simulation(played: _Played, request: SimulationRequest) -> Simulation:
    if request.inputs and played.ticks > request.ticks:
        raise BrokenProtocolRule(ProtocolRule.TICKS)
    if set(played.stats) != set(request.stats):
        raise BrokenProtocolRule(ProtocolRule.STATS)
    return Simulation(
        ticks=played.ticks,
        is_over=played.is_over,
        score=played.score,
        state_hash=int(played.state_hash or "0", 16),
        stats=tuple(played.stats[name] for name in request.stats),
        checkpoints=_checkpoints(played, request) if request.inputs else (),
        fuel=0,
    )


def _checkpoints(played: _Played, request: SimulationRequest) -> tuple[int, ...]:
    hashes = played.checkpoints or []
    if len(hashes) != (played.ticks // request.checkpoint_ticks if request.checkpoint_ticks else 0):
        raise BrokenProtocolRule(ProtocolRule.CHECKPOINTS)
    return tuple(int(digits, 16) for digits in hashes)


def _strict(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line, without duplicate keys, fractions, NaN or gigantic numbers."""
    try:
        document = json.loads(
            line.decode(), object_pairs_hook=_object, parse_float=_refuse, parse_constant=_refuse
        )
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or an integer too long to parse
        raise BrokenProtocolRule(ProtocolRule.STRICT_JSON) from None
    if not isinstance(document, dict):
        raise BrokenProtocolRule(ProtocolRule.STRICT_JSON)
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("duplicate key")
    return fields


def _refuse(token: str) -> Never:
    raise ValueError(token)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
