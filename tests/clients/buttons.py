"""The game of docs/how-to/put-your-game-on-it.md, built as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.support.gate import missing

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "put-your-game-on-it.md"


def build_buttons(folder: Path) -> None:
    """Write the policy and the module of the page into the folder `policies`. Skips without its compiler."""
    how_to = PAGE.read_text()
    reference = (ROOT / "docs" / "reference" / "simulator-module.md").read_text()
    [pinned] = set(re.findall(r"ziglang==(\S+)", how_to))
    try:
        found = version("ziglang")
    except PackageNotFoundError:
        found = None
    if found != pinned:
        missing(f"building the game needs ziglang=={pinned}, found {found}")
    [policy] = re.findall(r"```yaml\n(board: buttons\n.*?)```", how_to, re.DOTALL)
    [command] = re.findall(r"^python (-m ziglang cc .*?[^\\])$", how_to, re.MULTILINE | re.DOTALL)
    modules = folder / "policies" / "modules"
    modules.mkdir(parents=True)
    (folder / "policies" / "buttons.yaml").write_text(policy)
    code = re.findall(r"## A smallest module.*?```c\n(.*?)```", reference, re.DOTALL)[0]
    (folder / "game.c").write_text(code)
    arguments = command.replace("\\\n", " ").split()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, timeout=60)
