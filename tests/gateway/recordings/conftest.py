"""A directory and a bucket: whatever a store of recordings promises, it promises on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bucket import Bucket, running_bucket


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with running_bucket() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty place for recordings."""
    if request.param == "directory":
        return f"file://{tmp_path}/recordings"
    request.getfixturevalue("bucket")
    return "s3://evidence/games/one"
