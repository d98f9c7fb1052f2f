"""A sealed ledger, made once and copied for each test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policies.loader import Board
from tests.support import boards
from tests.support.sealed import SealedLedger, sealed_ledger


@pytest.fixture(scope="session")
def tiny_board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return boards.board(tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="session")
def _original(tmp_path_factory: pytest.TempPathFactory, tiny_board: Board) -> SealedLedger:
    return asyncio.run(sealed_ledger(tmp_path_factory.mktemp("sealed") / "data", tiny_board))


@pytest.fixture
def sealed(_original: SealedLedger, tmp_path: Path) -> SealedLedger:
    return _original.copy(tmp_path)
