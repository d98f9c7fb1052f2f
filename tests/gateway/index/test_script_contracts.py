"""Each Lua script against its own header: what it takes, what it gives, and that it touches nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gateway.index
from gateway.index.scripts import script_source

FOLDER = Path(gateway.index.__file__).parent / "lua"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.lua") if not path.stem.startswith("_"))
INCLUDED = sorted(path.stem for path in FOLDER.glob("_*.lua"))


def split(name: str) -> tuple[str, str]:
    """The header comment and the code of a script."""
    lines = (FOLDER / f"{name}.lua").read_text().splitlines()
    length = next(at for at, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:length]), "\n".join(line.partition("--")[0] for line in lines[length:])


def indexes(text: str, table: str) -> tuple[set[int], int | None]:
    """The single indexes of KEYS or ARGV that a header names, and from where on it names all."""
    singles = {int(number) for number in re.findall(rf"{table}\[(\d+)\]", text)}
    open_ended = re.search(rf"{table}\[(\d+)\.\.\]", text)
    return singles, int(open_ended[1]) if open_ended else 1 if re.search(rf"{table} per ", text) else None


def test_every_script_file_is_looked_at():
    """The scripts that the index loads are the files that these tests read."""
    loaded = {
        name
        for path in FOLDER.parent.rglob("*.py")
        for name in re.findall(r'Script\(client, "(\w+)"[,)]', path.read_text())
    }
    assert set(SCRIPTS) == loaded


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_header_names_everything(name: str):
    """A header says what the script does, its keys, its arguments with units, what it returns, and whose clock it reads."""
    header, code = split(name)
    assert re.match(r"-- [A-Z][^\n]+\.$", header.splitlines()[0])
    for part in (r"KEYS\[1\]", r"ARGV(\[1\]| per )", r"Returns ", r"Clock: ", r"[Ii]dempotent|Read-only"):
        assert re.search(part, header), part
    reads_clock = "'TIME'" in code or re.search(r"include: _(gcra|head)$", header, re.MULTILINE)
    assert bool(reads_clock) == ("Clock: Redis TIME" in header)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("table", ["KEYS", "ARGV"])
def test_every_index_used_is_in_the_header(name: str, table: str):
    """What the code takes from KEYS and ARGV by number is what the header says is there."""
    header, code = split(name)
    named, rest = indexes(header, table)
    used, _ = indexes(code, table)
    assert all(index in named or (rest is not None and index >= rest) for index in used)
    is_computed = bool(re.search(rf"{table}\[(?!\d+\])", code))
    assert is_computed == (rest is not None)
    assert named - {rest} <= used


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_key_is_built_inside(name: str):
    """Every key comes in through KEYS: each first argument of a call is one, or a local name for one."""
    _, code = split(name)
    local_keys = {
        "zset",
        "members",
        "names",
        "groups",
        "player_key",
        "address_key",
        "network_key",
        "key",
        "built",
        "live",
    }
    code = re.sub(r"'(XINFO|XGROUP)', '\w+'", r"'\1'", code)  # the key comes after the word for what is asked
    code = re.sub(r"'XREADGROUP'.*'STREAMS'", "'XREADGROUP'", code)
    for command, key in re.findall(r"redis\.call\('(\w+)'(?:, ([^,)]+(?:\[[^\]]*\])?))?", code):
        assert command == "TIME" or key.startswith("KEYS[") or key in local_keys, (command, key)
    for name_of, source in re.findall(r"local ([\w, ]+) = (.*)", code):
        if set(name_of.replace(" ", "").split(",")) & local_keys:
            assert all(each.strip().startswith("KEYS[") for each in source.split(", KEYS")[0].split(",")[:1])
    assert ".." not in re.sub(r"'[^']*'", "", code)


@pytest.mark.parametrize("name", [*SCRIPTS, *INCLUDED])
def test_no_number_is_formatted_by_lua(name: str):
    """Lua's own formatting keeps 14 digits: scores pass through as text, and `tostring` and cjson are not used."""
    _, code = split(name)
    assert not re.search(r"tostring|cjson|%d\b|%g", re.sub(r"'\^[^']*'", "", code))


def test_an_include_is_put_before_its_script():
    """A script is sent with what it includes, once."""
    source = script_source("admit_submissions")
    assert 1 == source.count("local function gcra(")
    assert source.index("local function gcra(") < source.index("local population")
