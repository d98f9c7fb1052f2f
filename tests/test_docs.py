"""The documentation says what the code does: nothing is missing in its page, and no page names what is gone."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client.metrics import MetricWrapperBase
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from ruamel.yaml import YAML

from gateway.edge.problems import PROBLEM_BASE, ProblemType
from gateway.edge.routes import ROUTES
from gateway.index import keys
from gateway.runtime import failpoints, telemetry
from gateway.runtime.settings import Settings
from policies.decision_codes import CODES
from policies.family_policy import FamilyPolicy
from policies.model import Policy
from policies.vocabulary import TRANSITIONS, Reason, Severity, VerdictKind
from replay.simulators.process import FILES_VARIABLE
from scoregate.cli import app
from scoregate.commands.groups import GROUPS, LoadingGroup
from scoregate.commands.policies import checked_facts
from tests.support import rooms
from tests.support.plugins import install, installed

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(?:^|&& |\$\()(?:[A-Z_]+=\S+ )*(?:\S+/)?(scoregate [^#&|)]+)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked(*suffixes: str) -> list[Path]:
    """Files of the project with one of these suffixes: those under version control, and new ones that may come."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [ROOT / line for line in listed.splitlines()]
    except (OSError, subprocess.CalledProcessError):  # not a checkout: what was unpacked is the project
        paths = [path for path in ROOT.rglob("*") if "/." not in f"/{name_of(path)}"]
    return [path for path in sorted(paths) if path.suffix in suffixes and path.is_file()]


PAGES = tracked(".md")


def each_page(test: Any) -> Any:
    return pytest.mark.parametrize("page", PAGES, ids=name_of)(test)


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    return FENCE.sub("", read(path))


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(read(page)) if kind == language]


def rows(page: str, *, heading: str = "") -> Iterator[list[str]]:
    """The cells of every table row of a reference page, or of its section under `heading`."""
    text = read(REFERENCE / page)
    if heading:
        text = re.split(r"^## ", text.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def first_codes(page: str, *, heading: str = "") -> list[str]:
    """What stands as code in the first column of a page's tables."""
    return [row[0].strip("`") for row in rows(page, heading=heading) if row[0].startswith("`")]


def codes(cell: str) -> set[str]:
    return set(CODE.findall(cell))


def leaves(model: BaseModel | type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that holds a value, dotted, with its default; PydanticUndefined where one is required."""
    kind = model if isinstance(model, type) else type(model)
    for name, field in kind.model_fields.items():
        default = field.default if isinstance(model, type) else getattr(model, name)
        section = next((each for each in _candidates(field.annotation) if _is_model(each)), None)
        if section is None:
            yield prefix + name, default
        else:
            yield from leaves(default if isinstance(default, BaseModel) else section, f"{prefix}{name}.")


def _candidates(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *getattr(annotation, "__args__", ()))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def as_written(default: Any) -> str:
    """A default as the tables write it."""
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "none"
    if isinstance(default, tuple):
        return f"`[{', '.join(default)}]`"
    return f"`{default}`"


@cache
def commands() -> dict[str, Any]:
    """Every command of the command line by its words."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name in GROUPS if isinstance(command, LoadingGroup) else ():
            command.load(name)
        below = getattr(command, "commands", None)
        if below is None:
            found[" ".join(words)] = command
        for name, each in (below or {}).items():
            walk(each, (*words, name))

    walk(typer.main.get_command(app), ("scoregate",))
    return found


def parameters(command: Any) -> set[str]:
    """Options as `--name`, arguments in capitals."""
    names = {
        each.opts[0] if each.opts[0].startswith("-") else each.opts[0].upper() for each in command.params
    }
    return names - {"--help"}


def redis_keys() -> dict[str, tuple[str, str]]:
    """Pattern of every Redis key, with its type and the function that makes it."""
    found = {}
    for name, function in inspect.getmembers(keys, inspect.isfunction):
        kind = re.match(r"(ZSET|HASH|STREAM|STRING|SET|LIST):", function.__doc__ or "")
        if kind:
            holders = [f"<{each}>" for each in inspect.signature(function).parameters]
            key = function(*holders).replace(keys.tag("<board>"), "{<lane>}")
            found[key] = (kind[1], name)
    return found


@cache
def metrics() -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of every metric, by the name it is scraped under."""
    found = {}
    for metric in vars(telemetry).values():
        if isinstance(metric, MetricWrapperBase):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            found[name] = (metric._type, set(metric._labelnames))
    return found


def logged_events() -> set[str]:
    """Names of the log events that some code gives off."""
    sources = [
        read(path) for room in ("gateway", "replay", "scoregate") for path in (ROOT / room).rglob("*.py")
    ]
    used = set(re.findall(r"\bEvent\.([A-Z_]+)\b", "\n".join(sources)))
    return {value for name, value in vars(telemetry.Event).items() if name in used}


def slug_of(heading: str) -> str:
    """The anchor of a heading, as it is on GitHub."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug_of(match) for match in re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)}


def test_every_policy_field_is_documented_with_its_default():
    """policy.md has each field of the model, no other, and the default that the model has."""
    stated = {row[0].strip("`"): row[2] for row in rows("policy.md") if len(row) == 4 and row[0][0] == "`"}

    fields = dict(leaves(FamilyPolicy)) | dict(leaves(Policy))
    assert {name: as_written(default) for name, default in fields.items()} == stated


def test_every_setting_is_documented_with_its_default():
    """settings.md has each variable, no other, and the default that it has where that is a plain value."""
    stated = {row[0].strip("`"): row[2] for row in rows("settings.md") if row[0].startswith("`")}
    fields = {f"SCOREGATE_{name.upper()}": field for name, field in Settings.model_fields.items()}

    assert fields.keys() == stated.keys()
    plain = {name: field.default for name, field in fields.items() if field.default_factory is None}
    words = {None: "unset", (): "empty"}
    assert {n: words.get(d, f"`{d}`") for n, d in plain.items()} == {n: stated[n] for n in plain}


def test_every_problem_is_documented_with_its_status():
    """problems.md has each problem type, no other, and its status."""
    stated = {row[0].strip("`"): int(row[1]) for row in rows("problems.md") if row[0].startswith("`")}

    assert {kind.slug: kind.status for kind in ProblemType} == stated


def test_every_reason_code_is_documented_with_its_decisions():
    """reasons.md has each code of each kind of decision, no other, with its meaning and what it says of the run."""
    stated = set()
    for kinds, code, meaning, verdict in rows("reasons.md", heading="Reason codes"):
        if code == "code":
            continue  # the head of the table
        for kind in CODES if kinds == "all" else kinds.split(", "):
            stated.add((kind, code.strip("`"), meaning, {"honest": False, "a cheat": True}.get(verdict)))

    assert {(kind, code, *meant) for kind, codes in CODES.items() for code, meant in codes.items()} == stated


def test_every_reason_is_documented_with_class_and_meaning():
    """reasons.md has each reason, no other, with the class its player is told and the moderator's text."""
    stated = {
        row[0].strip("`"): tuple(row[1:3]) for row in rows("reasons.md", heading="Reasons") if len(row) == 4
    }
    stated.pop("reason")

    assert {reason.value: (reason.player_class, reason.meaning) for reason in Reason} == stated


def test_every_class_severity_and_verdict_is_documented():
    """reasons.md has each class that a player can be told, each severity and each verdict."""
    classes = [
        row[0].strip("`") for row in rows("reasons.md", heading="Reasons") if len(row) == 2 and "`" in row[0]
    ]

    assert {reason.player_class for reason in Reason} == set(classes)
    assert {each.value for each in Severity} == set(first_codes("reasons.md", heading="Findings"))
    assert {each.value for each in VerdictKind} == set(first_codes("reasons.md", heading="Verdicts"))


def test_every_state_is_documented_with_its_transitions():
    """reasons.md has each state and exactly the states that it may become."""
    stated = {
        row[0].strip("`"): codes(row[2]) for row in rows("reasons.md", heading="States") if "`" in row[0]
    }

    assert {state.value: {each.value for each in then} for state, then in TRANSITIONS.items()} == stated


def test_every_metric_is_documented_with_kind_and_labels():
    """metrics.md has each metric as it is scraped, no other, with its kind and labels."""
    table = [row for row in rows("metrics.md", heading="Metrics") if row[0].startswith("`")]

    assert metrics() == {row[0].strip("`"): (row[1], codes(row[2])) for row in table}


def test_every_log_event_is_documented():
    """metrics.md has each event that the code logs, and no other."""
    assert logged_events() == set(first_codes("metrics.md", heading="Log events"))


def test_every_route_is_documented():
    """http.md has each route with its caller and summary, and no other."""
    table = [tuple(row) for row in rows("http.md", heading="Routes") if row[1].startswith("`/")]
    routes = [(route.method, f"`{route.path}`", route.caller.value, route.summary) for route in ROUTES]

    assert sorted(routes) == sorted(table)


def test_every_redis_key_is_documented():
    """keys.md has each key with its type and function, and no other."""
    table = [row for row in rows("keys.md", heading="Keys") if row[0].startswith("`")]

    assert redis_keys() == {row[0].strip("`"): (row[1], row[2].strip("`")) for row in table}


def test_every_lua_script_is_documented():
    """keys.md has each script, and no other."""
    scripts = {path.name for path in (ROOT / "gateway" / "index" / "lua").glob("*.lua")}

    assert scripts == set(first_codes("keys.md", heading="Scripts"))


def test_the_rooms_are_drawn_as_they_are():
    """The tree and the picture of the architecture are those of the code: `python -m tests.support.rooms` redraws them."""
    page = read(rooms.PAGE)

    assert page == rooms.drawn(page)


def test_every_command_is_documented_with_its_options():
    """cli.md has each command with each option and argument, and no other."""
    headings = re.findall(r"^## `(.+)`$", read(REFERENCE / "cli.md"), re.MULTILINE)
    stated = {each: set(first_codes("cli.md", heading=f"`{each}`")) for each in headings}

    assert {words: parameters(command) for words, command in commands().items()} == stated


@each_page
def test_relative_links_lead_somewhere(page: Path):
    """No page links to a file or a heading that is not there."""
    dead = []
    for link in LINK.findall(prose_of(page)):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        is_anchor_dead = anchor and path.suffix == ".md" and path.is_file() and anchor not in anchors(path)
        if "://" not in link and (not path.exists() or is_anchor_dead):
            dead.append(link)

    assert [] == dead


def test_the_pictures_of_the_readme_are_pictures_and_small():
    """Each is there, is what its name says, and has less than 300 kB."""
    begins = {".png": b"\x89PNG", ".webp": b"RIFF"}
    pictures = [ROOT / name for name in re.findall(r"!\[[^\]]+\]\(([^()\s]+)\)", read(ROOT / "README.md"))]
    for picture in pictures:
        assert picture.read_bytes().startswith(begins[picture.suffix]), picture
        assert 300_000 > picture.stat().st_size, picture
    assert {f"console-{page}" for page in ("queue", "case", "figures")} < {each.stem for each in pictures}


@each_page
def test_examples_can_be_read(page: Path):
    """JSON and YAML examples parse, Python compiles, and a policy is one that the loader would take."""
    for text in blocks(page, "json"):
        json.loads(text)
    for text in blocks(page, "python"):
        compile(text, name_of(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for text in blocks(page, "yaml"):
        document = YAML(typ="safe", pure=True).load(text)
        if "board" in document:
            Policy.model_validate(document)
        elif "family" in document:
            FamilyPolicy.model_validate(document)


REPLAYED = {
    "board": "sample",
    "title": "Sample",
    "writes": "verified",
    "score": {"minimum": 0, "maximum": 30_000},
    "velocity": {"points_per_second": 1000},
    "anomaly": {"prior": {"mean": 4000, "spread": 4000}},
    "forensics": {"buttons": 1},
    "builds": {"sample-1": {"simulator": "sample.wasm"}},
    "replay": {"maximum_ticks": 36_000},
}
TRUSTED = {"board": "sample", "title": "Sample", "writes": "trusted"}
"""What a page's part of a policy lacks to be a whole one: of a board whose runs are replayed, or one that servers write to."""


def policies_of(page: Path) -> Iterator[dict[str, Any]]:
    """The policies that a page shows; one of which it shows a part is completed."""
    for text in blocks(page, "yaml"):
        document = YAML(typ="safe", pure=True).load(text)
        if "board" in document or "family" in document:
            yield document
        elif document.keys() <= Policy.model_fields.keys():
            is_replayed = document.keys() & {"builds", "replay", "verification", "rules", "stats"}
            whole = {**(REPLAYED if is_replayed else TRUSTED), **document}
            stats = list(document.get("stats", ()))
            yield {**whole, "replay": {**whole["replay"], "stats": stats}} if stats else whole


def with_files(document: dict[str, Any], folder: Path) -> Path:
    """The policy as a file, beside all that it names."""
    builds = document.get("builds", {}).values()
    named = [path for each in builds for path in (each.get("simulator"), *each.get("files", ()))]
    for name in (*filter(None, named), *document.get("replay", {}).get("files", ())):
        (folder / name).resolve().parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if family := document.get("rollup", {}).get("family"):
        (folder / "family.yaml").write_text(
            f"family: {family}\ntitle: F\nscore: {{minimum: 0, maximum: 1}}\n"
        )
    path = folder / "sample.yaml"
    YAML().dump(document, path)
    return path


def test_N09_policy_examples_draw_no_warning(tmp_path: Path):
    """What a page shows is what somebody starts from, so `policy check` takes it, whole or in part, without a warning."""
    warnings = {}
    with installed(tmp_path / "packages") as packages:
        [validator, *_] = blocks(ROOT / "docs" / "how-to" / "private-rules.md", "python")
        install(packages, "acme-round-scores", validator, package="acme_rules", attribute="round_scores")
        shown = [(name_of(page), document) for page in PAGES for document in policies_of(page)]
        for number, (name, document) in enumerate(shown):
            folder = tmp_path / str(number) / "policies"
            folder.mkdir(parents=True)
            checked = checked_facts(with_files(document, folder), is_run=False)
            warnings[f"{number}: {name}"] = checked["warnings"]

    assert 8 < sum(document.get("board") == "sample" for _, document in shown) < len(shown) - 4
    assert {} == {name: told for name, told in warnings.items() if told}


@each_page
def test_shell_examples_call_commands_that_exist(page: Path):
    """A `scoregate` in a shell example is a command with options that it has."""
    known = commands()
    for line in "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        for call in CALL.findall(line):
            words = max((each for each in known if f"{call} ".startswith(f"{each} ")), key=len, default=call)
            assert words in known
            assert set() == set(re.findall(r"--[a-z-]+", call)) - parameters(known[words])


@each_page
def test_N09_commands_in_a_sentence_exist(page: Path):
    """A `scoregate …` between words is a command, a group of them, or an option of the whole, with options it has."""
    known = commands()
    groups = {words.rpartition(" ")[0] for words in known}
    whole = {"scoregate -h", "scoregate --version", "scoregate --install-completion"}
    for code in (" ".join(each.split()) for each in CODE.findall(prose_of(page))):
        if code.startswith("scoregate ") and code not in groups | whole and "…" not in code:
            words = max((each for each in known if f"{code} ".startswith(f"{each} ")), key=len, default=code)
            assert words in known
            assert set() == set(re.findall(r"--[a-z-]+", code)) - parameters(known[words])


@each_page
def test_pages_name_only_what_exists(page: Path):
    """Settings, metrics and problem types that any page names are real."""
    text = read(page)
    settings = {f"SCOREGATE_{name.upper()}" for name in Settings.model_fields} | {
        failpoints.VARIABLE,
        FILES_VARIABLE,
    }
    scraped = set(metrics()) | {"scoregate_client", "scoregate_app", "scoregate_owner", "scoregate_login"}
    slugs = {kind.slug for kind in ProblemType}

    assert set() == set(re.findall(r"\bSCOREGATE_[A-Z_]*[A-Z]\b", text)) - settings
    assert set() == set(re.findall(r"\bscoregate_[a-z_]*[a-z]\b", text)) - scraped
    assert set() == set(re.findall(re.escape(PROBLEM_BASE) + r"([a-z-]+)", text)) - slugs


def test_every_id_of_the_threat_model_has_a_test():
    """What threat-model.md says is tested has a test that bears its id."""
    page = read(ROOT / "docs" / "explanation" / "threat-model.md").partition("\n## Requests\n")[2]
    promised = set(re.findall(r"\b[A-Z]\d\d\b", page))
    tests = [
        name for path in tracked(".py") if path.is_relative_to(ROOT / "tests") for name in _tests_in(path)
    ]

    assert set() == promised - {each for name in tests for each in re.findall(r"[A-Z]\d\d", name)}


def _tests_in(path: Path) -> list[str]:
    return re.findall(r"def (test_\w+)", read(path))


def test_the_files_that_the_threat_model_names_exist():
    """Where threat-model.md says a check is, there is a file or folder."""
    page = read(ROOT / "docs" / "explanation" / "threat-model.md")
    named = {each for row in re.findall(r"^\|.*\|$", page, re.MULTILINE) for each in codes(row.split("|")[3])}
    found = {each for each in named if (ROOT / each).exists() or (ROOT / "gateway" / each).exists()}

    assert found == named


def test_nothing_names_a_place_on_somebodys_machine():
    """No page and no source names a folder that exists on one machine only."""
    local = re.compile(r"(?<![\w.:/])/(?:tmp/w|work)(?![\w-])|/home/(?!ada\b)\w+|/Users/\w+")
    suffixes = (".md", ".py", ".toml", ".yaml", ".lua", ".js", ".mjs", ".html", ".css", ".c", ".json", "")
    files = [path for path in tracked(*suffixes) if path != Path(__file__)]

    assert [] == [name_of(path) for path in files if local.search(path.read_bytes().decode(errors="replace"))]


def test_F18_what_the_threat_model_says_cannot_be_done_is_not_a_command_or_a_route():
    """Its last section names no revocation or undo as missing that a command or a route offers."""
    page = read(ROOT / "docs" / "explanation" / "threat-model.md").partition("## What is not defended")[2]
    routes = {route.path.rpartition("/")[2] for route in ROUTES}
    assert {"revoke", "reinstate"} <= routes
    for claim in ("no undo", "There is no revocation", "until its row is deleted"):
        assert claim not in page
