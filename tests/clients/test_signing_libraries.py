"""Libraries of others sign requests that the edge accepts, by the code of docs/how-to/sign-with-a-library.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from scoregate_client import ScoregateClient

from tests.clients.languages import ROOT, built
from tests.clients.stage import SERVER, Stage, claim
from tests.support.boards import BUILD
from tests.support.gate import missing

INTEROP = Path(__file__).with_name("interop")
PAGE = (ROOT / "docs" / "how-to" / "sign-with-a-library.md").read_text("utf-8")


def block(language: str) -> str:
    """The code of the page in a language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(code)


def a_run(stage: Stage) -> dict[str, Any]:
    """The answer that opened a run, and an honest claim of it."""

    async def opened() -> dict[str, Any]:
        async with ScoregateClient(stage.url) as client:
            player = await client.create_player("Ada")
        answer = await stage.harness.post("/v1/boards/tiny/runs", {"build": BUILD}, player.token)
        return dict(answer.body)

    run = stage.call(opened())
    honest = claim(run["seed"])
    return {"base": stage.url, "run": run, "claim": {**honest, "stats": dict(honest["stats"])}}


def pem_of(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_http_message_signatures_for_python_signs_what_the_edge_accepts(stage: Stage):
    """A run's score, and a game server's."""
    module: dict[str, Any] = {"__name__": "page"}
    exec(compile(block("python"), "sign-with-a-library.md", "exec", dont_inherit=True), module)
    told = a_run(stage)
    receipt = module["submit"](**told)
    assert "promoted" == stage.settled(receipt["submission"])
    entry = {"operation": "python-1", "player": "p_python", "score": 7}
    assert "promoted" == module["write"](stage.url, "vault", entry, SERVER, pem_of(stage.key))["state"]


def test_http_message_signatures_for_node_signs_what_the_edge_accepts(
    stage: Stage, node_modules: Path, tmp_path: Path
):
    """The same, with another library of that name, from the lock file that is committed."""
    (tmp_path / "node_modules").symlink_to(node_modules)
    (tmp_path / "page.mjs").write_text(block("js"), "utf-8")
    shutil.copy(INTEROP / "call.mjs", tmp_path)
    entry = {"operation": "node-1", "player": "p_node", "score": 8}
    told = a_run(stage) | {"entry": entry, "keyId": SERVER, "pem": pem_of(stage.key).decode()}
    made = subprocess.run(
        ["node", "call.mjs"],
        cwd=tmp_path,
        input=json.dumps(told).encode(),
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert 0 == made.returncode, made.stderr.decode()
    receipt, written = json.loads(made.stdout)
    assert ("promoted", "promoted") == (stage.settled(receipt["submission"]), written["state"])


@pytest.fixture
def node_modules(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `npm ci` installs, once for each content of the lock file."""
    if not shutil.which("node") or not shutil.which("npm"):
        missing("a library for Node needs node and npm")
    cache = pytestconfig.cache
    kept = Path(cache.mkdir("interop") if cache else tmp_path_factory.mktemp("interop"))
    lock = [INTEROP / "package.json", INTEROP / "package-lock.json"]

    def install(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in lock:
            shutil.copy(path, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
        if done.returncode:
            missing(f"npm ci does not work: {done.stderr.decode()[-500:]}")

    return built(kept, lock, install) / "node_modules"
