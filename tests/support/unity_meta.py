"""The .meta files of the Unity package: `python -m tests.support.unity_meta` writes those that are missing.

Unity knows an asset by the guid in its .meta file, so a guid that was given stays. A package from a Git URL is read
only: without its .meta files Unity imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "clients" / "unity"

_FOOT = "  externalObjects: {}\n  userData:\n  assetBundleName:\n  assetBundleVariant:\n"
_MONO = (
    "MonoImporter:\n  externalObjects: {}\n  serializedVersion: 2\n  defaultReferences: []\n"
    "  executionOrder: 0\n  icon: {instanceID: 0}\n  userData:\n  assetBundleName:\n  assetBundleVariant:\n"
)
_WEBGL = """PluginImporter:
  externalObjects: {}
  serializedVersion: 2
  iconMap: {}
  executionOrder: {}
  defineConstraints: []
  isPreloaded: 0
  isOverridable: 0
  isExplicitlyReferenced: 0
  validateReferences: 1
  platformData:
  - first:
      Any:
    second:
      enabled: 0
      settings: {}
  - first:
      Editor: Editor
    second:
      enabled: 0
      settings:
        DefaultValueInitialized: true
  - first:
      WebGL: WebGL
    second:
      enabled: 1
      settings: {}
  userData:
  assetBundleName:
  assetBundleVariant:
"""


def imported() -> Iterator[Path]:
    """Yield what Unity imports: no hidden files, and no folders that end with a tilde."""
    for path in sorted(PACKAGE.rglob("*")):
        parts = path.relative_to(PACKAGE).parts
        is_left_out = any(part.startswith(".") or part.endswith("~") for part in parts)
        if path.suffix != ".meta" and not is_left_out:
            yield path


def meta_of(path: Path) -> Path:
    """Return where the .meta file of a file or folder is."""
    return path.with_name(f"{path.name}.meta")


def _text(path: Path) -> str:
    name = f"com.scoregate.client/{path.relative_to(PACKAGE).as_posix()}"
    guid = md5(name.encode(), usedforsecurity=False).hexdigest()
    return f"fileFormatVersion: 2\nguid: {guid}\n{_importer(path)}"


def _importer(path: Path) -> str:
    if path.is_dir():
        return f"folderAsset: yes\nDefaultImporter:\n{_FOOT}"
    if path.name == "package.json":
        return f"PackageManifestImporter:\n{_FOOT}"
    return {
        ".cs": _MONO,
        ".asmdef": f"AssemblyDefinitionImporter:\n{_FOOT}",
        ".jslib": _WEBGL,
    }.get(path.suffix, f"TextScriptImporter:\n{_FOOT}")


if __name__ == "__main__":
    for missing in (path for path in imported() if not meta_of(path).exists()):
        meta_of(missing).write_text(_text(missing))
