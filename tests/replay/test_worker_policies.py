"""A worker changes its policies between two jobs, and never inside one."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from rq.exceptions import StopRequested

from gateway.catalogue.catalogue import Catalogue
from gateway.runtime.reload import Reload
from gateway.runtime.settings import Settings
from policies.loader import Policies, load_policies
from replay.worker.worker_policies import WorkerPolicies
from tests.support import boards


@pytest.fixture
def put() -> list[str]:
    """The titles that were put in force, in their order."""
    return []


@pytest.fixture
def answers() -> list[Reload]:
    """What was told of each reload, in their order."""
    return []


@pytest.fixture
def policies(tmp_path: Path, put: list[str], answers: list[Reload]) -> WorkerPolicies:
    boards.write_board(tmp_path)

    def note(changed: Policies) -> None:
        put.append(changed.boards["tiny"].policy.title)

    catalogue = Catalogue(load_policies(tmp_path))
    return WorkerPolicies(Settings(policies_dir=tmp_path), catalogue, note, answers.append)


def hang_up(policies: WorkerPolicies, folder: Path, title: str) -> None:
    boards.write_board(folder, title=title)
    policies.hang_up(signal.SIGHUP, None)


def test_between_jobs_it_changes_at_once(policies: WorkerPolicies, tmp_path: Path, put: list[str]):
    """An idle worker does not wait for work to hear of a wrong file."""
    hang_up(policies, tmp_path, "First")

    assert ["First"] == put


def test_inside_a_job_it_waits_for_its_end(
    policies: WorkerPolicies, tmp_path: Path, put: list[str], answers: list[Reload]
):
    """Asked twice, it reads the files once, as they are then, and tells of it once it is done."""
    with policies.held():
        hang_up(policies, tmp_path, "First")
        hang_up(policies, tmp_path, "Second")
        assert ([], []) == (put, answers)
        let_go_ns = time.monotonic_ns()

    assert ["Second"] == put
    [answer] = answers
    assert (["tiny"], None) == (list(answer.changed), answer.refusal)
    assert let_go_ns <= answer.began_ns


def test_a_job_in_which_nobody_asks_changes_nothing(policies: WorkerPolicies, tmp_path: Path, put: list[str]):
    """Most jobs: the files may have changed, but until somebody says so, what was read holds. What is asked is done once."""
    boards.write_board(tmp_path, title="First")
    for _ in range(2):
        with policies.held():
            pass
    assert [] == put
    policies.hang_up(signal.SIGHUP, None)
    with policies.held():
        pass
    assert ["First"] == put


def test_a_wrong_file_changes_nothing(
    policies: WorkerPolicies, tmp_path: Path, put: list[str], answers: list[Reload]
):
    """Nor does one that needs a restart, and it says which; what comes after it does."""
    (tmp_path / "tiny.yaml").write_text("board: [")
    policies.hang_up(signal.SIGHUP, None)
    boards.write_board(tmp_path, order="ascending")
    policies.hang_up(signal.SIGHUP, None)
    assert [] == put
    wrong, other = answers
    assert (True, True) == ("tiny.yaml:1" in str(wrong.refusal), "order was" in str(other.refusal))
    hang_up(policies, tmp_path, "Mended")

    assert ["Mended"] == put


def test_a_fault_in_a_reload_is_told_and_ends_no_job(
    policies: WorkerPolicies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[Reload]
):
    """The job keeps its result, and readiness of policies says that they are old; the next reload is heeded."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("one of ours")

    def job() -> str:
        with policies.held():
            hang_up(policies, tmp_path, "First")
            return "its result"

    with monkeypatch.context() as patch:
        patch.setattr(policies, "_put", fail)
        assert "its result" == job()
    [failed] = answers
    assert (None, True) == (failed.policies, "a fault of Scoregate" in str(failed.refusal))
    assert policies._catalogue.is_stale
    hang_up(policies, tmp_path, "Second")
    assert (None, False) == (answers[-1].refusal, policies._catalogue.is_stale)


def test_a_worker_that_is_told_to_stop_while_it_reloads_stops(
    policies: WorkerPolicies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """RQ ends an idle worker by an error in whatever it does."""

    def stop(_: object) -> None:
        raise StopRequested

    monkeypatch.setattr(policies, "_put", stop)
    with pytest.raises(StopRequested):
        hang_up(policies, tmp_path, "First")


def test_asked_again_while_it_reads_it_ends_with_the_newest(tmp_path: Path, put: list[str]):
    """A second signal in the middle of a change is heeded after it: what was read first is not put in force last."""
    boards.write_board(tmp_path)

    def note(changed: Policies) -> None:
        title = changed.boards["tiny"].policy.title
        if title == "First":
            hang_up(policies, tmp_path, "Second")
        put.append(title)

    catalogue = Catalogue(load_policies(tmp_path))
    policies = WorkerPolicies(Settings(policies_dir=tmp_path), catalogue, note, lambda _: None)
    hang_up(policies, tmp_path, "First")

    assert ["First", "Second"] == put
