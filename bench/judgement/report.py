"""The tables of what was measured, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bench.judgement.courses import COURSES
from bench.judgement.detection import ALL, RATES, Detection
from bench.judgement.measurement import Measured
from bench.judgement.outcomes import Outcome
from bench.judgement.population import HONEST, Played
from validators.backtest import Proportion

WORTH_TELLING: Final = 0.2
"""A layer that detects less of a cheat at the higher rate is left out of the table."""

MISSED: Final = 0.5
"""Of whose accounts less than this share is detected at the lower rate, that is missed."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose first column is text."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    yield _line(heads, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from (_line(row, widths) for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def percent(share: Proportion, digits: int = 0) -> str:
    """A share with its interval, in percent."""
    low, high = share.interval
    return f"{100 * share.hits / max(1, share.of):.{digits}f} % ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def detected(found: Detection) -> Iterator[str]:
    """Of each cheat: what all layers detect, and each layer that detects a fifth of its runs."""
    heads = [
        "cheat",
        "layer",
        *(f"{what} at {100 * rate:g} %" for rate in RATES for what in ("runs", "accounts")),
    ]
    rows = []
    for name in found.cheats:
        tells = [layer for layer in found.layers if layer == ALL or _tells(found, layer, name)]
        for layer in sorted(tells, key=lambda each: (each != ALL, -found.of_runs(each, RATES[0], name).hits)):
            shares = [
                share(layer, rate, name) for rate in RATES for share in (found.of_runs, found.of_accounts)
            ]
            rows.append([name if layer == ALL else "", layer, *map(percent, shares)])
    yield from table(heads, rows)


def _tells(found: Detection, layer: str, name: str) -> bool:
    share = found.of_runs(layer, RATES[0], name)
    return share.hits >= WORTH_TELLING * share.of


def false_positives(found: Detection) -> Iterator[str]:
    """What each layer found in the half of the honest accounts that its threshold was not set on."""
    heads = ["layer", "has a say in", *(f"runs at {100 * rate:g} %" for rate in RATES)]
    heads += [f"accounts at {100 * rate:g} %" for rate in RATES]
    rows = []
    for layer in found.layers:
        runs = [percent(found.of_runs(layer, rate, HONEST), 2) for rate in RATES]
        accounts = [percent(found.of_accounts(layer, rate, HONEST)) for rate in RATES]
        say = found.has_a_say(layer)
        rows.append([layer, f"{100 * say.hits / max(1, say.of):.0f} %", *runs, *accounts])
    yield from table(heads, rows)


def operating_point(runs: Sequence[Played], outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Where runs end under the policy as it is shipped."""
    counts: dict[str, Counter[Outcome]] = {name: Counter() for name in (HONEST, *COURSES)}
    for run, outcome in zip(runs, outcomes, strict=True):
        counts[run.account.name][outcome] += 1
    rows = [
        [name, *(percent(Proportion(found[each], found.total()), 1) for each in Outcome)]
        for name, found in counts.items()
    ]
    yield from table(["runs of", *(each.value for each in Outcome)], rows)


def missed(found: Detection) -> Iterator[str]:
    """A line for each cheat that mostly goes unseen at the lower rate, the most unseen first."""
    rate = RATES[-1]
    shares = {name: found.of_accounts(ALL, rate, name) for name in found.cheats}
    for name, share in sorted(shares.items(), key=lambda pair: pair[1].hits / pair[1].of):
        if share.hits < MISSED * share.of:
            runs = percent(found.of_runs(ALL, rate, name))
            yield f"- missed at {100 * rate:g} %: {name}: {runs} of its runs, {percent(share)} of its accounts"


def lines(found: Measured) -> Iterator[str]:
    """The whole report of the detection."""
    honest = sum(run.is_honest for run in found.runs)
    yield f"{honest} honest runs, {len(found.runs) - honest} cheating ones"
    for title, part in (
        ("A board that replays: what re-simulation bears out is learnt", found.replayed),
        ("A board without replay: what the policy does not hold is learnt", found.unreplayed),
    ):
        yield from ("", f"## {title}", "", *detected(part), "", *missed(part))
        yield from ("", "False positives among the honest accounts that no threshold was set on:", "")
        yield from false_positives(part)
    yield from ("", "## Where runs end under policies/arcade.yaml", "")
    yield from operating_point(found.runs, found.outcomes)
    yield from ("", f"Stolen recordings refused by the game's own seeds: {percent(found.refused, 1)}")
