"""The build hook of the server's wheel, which draws the reference pages from the code in the wheel.

It is off unless `HATCH_BUILD_HOOK_ENABLE_CUSTOM=true`, as the Dockerfile sets it, because drawing installs
all that the server needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DrawnPages(BuildHookInterface[Any]):
    """Adds the drawn pages to a wheel."""

    def dependencies(self) -> list[str]:
        """Return what drawing needs: all that the server needs but its client, which no index has yet."""
        return [each for each in self.metadata.core.dependencies if not each.startswith("scoregate-client")]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Draw the pages. An editable installation has none, since its code changes under it."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        self._name_the_version(folder)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        drawing = [sys.executable, "-m", "gateway.edge.docs.drawn_pages", str(folder / "drawn")]
        environment = os.environ | {"PYTHONPATH": path}
        subprocess.run(drawing, cwd=self.root, env=environment, check=True)  # noqa: S603
        build_data["force_include"][str(folder / "drawn")] = "gateway/edge/docs/drawn"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact_path: str) -> None:
        """Remove what was drawn, which the wheel has now."""
        if version != "editable":
            self._folder.cleanup()

    def _name_the_version(self, folder: Path) -> None:
        """Write the metadata that the pages read the version from, since nothing is installed yet."""
        facts = folder / f"{self.metadata.name}-{self.metadata.version}.dist-info"
        facts.mkdir()
        text = f"Metadata-Version: 2.1\nName: {self.metadata.name}\nVersion: {self.metadata.version}\n"
        (facts / "METADATA").write_text(text, encoding="utf-8")
