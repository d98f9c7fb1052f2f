"""Prints a measurement as tables in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bench.judgement.courses import COURSES
from bench.judgement.detection import ALL, RATES, Detection
from bench.judgement.measurement import Measurement
from bench.judgement.outcomes import Outcome
from bench.judgement.population import HONEST, SubmittedRun
from validators.backtest import Proportion

WORTH_TELLING: Final = 0.2
"""Tables leave out layers that detect a smaller share of a cheat at the higher rate."""

MISSED: Final = 0.5
"""A cheat is missed if a smaller share of its accounts is detected at the lower rate."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    yield _line(heads, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from (_line(row, widths) for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def percent(share: Proportion, digits: int = 0) -> str:
    """Return a proportion with its interval, in percent."""
    low, high = share.interval
    value = share.hits / max(1, share.of)
    return f"{100 * value:.{digits}f} % ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def detected(detection: Detection) -> Iterator[str]:
    """Yield a table of cheats: what all layers detect, and each layer that detects a fifth of the runs."""
    heads = [
        "cheat",
        "layer",
        *(f"{what} at {100 * rate:g} %" for rate in RATES for what in ("runs", "accounts")),
    ]
    rows = []
    for name in detection.cheats:
        tells = [layer for layer in detection.layers if layer == ALL or _tells(detection, layer, name)]
        for layer in sorted(
            tells, key=lambda layer: (layer != ALL, -detection.of_runs(layer, RATES[0], name).hits)
        ):
            shares = [
                share(layer, rate, name)
                for rate in RATES
                for share in (detection.of_runs, detection.of_accounts)
            ]
            rows.append([name if layer == ALL else "", layer, *map(percent, shares)])
    yield from table(heads, rows)


def _tells(detection: Detection, layer: str, name: str) -> bool:
    share = detection.of_runs(layer, RATES[0], name)
    return share.hits >= WORTH_TELLING * share.of


def false_positives(detection: Detection) -> Iterator[str]:
    """Yield a table of what each layer found in the honest accounts that its threshold was not set on."""
    heads = ["layer", "has a say in", *(f"runs at {100 * rate:g} %" for rate in RATES)]
    heads += [f"accounts at {100 * rate:g} %" for rate in RATES]
    rows = []
    for layer in detection.layers:
        runs = [percent(detection.of_runs(layer, rate, HONEST), 2) for rate in RATES]
        accounts = [percent(detection.of_accounts(layer, rate, HONEST)) for rate in RATES]
        say = detection.has_a_say(layer)
        rows.append([layer, f"{100 * say.hits / max(1, say.of):.0f} %", *runs, *accounts])
    yield from table(heads, rows)


def operating_point(runs: Sequence[SubmittedRun], outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a table of outcomes under the shipped policy."""
    counts: dict[str, Counter[Outcome]] = {name: Counter() for name in (HONEST, *COURSES)}
    for run, outcome in zip(runs, outcomes, strict=True):
        counts[run.account.name][outcome] += 1
    rows = [
        [name, *(percent(Proportion(count[outcome], count.total()), 1) for outcome in Outcome)]
        for name, count in counts.items()
    ]
    yield from table(["runs of", *(outcome.value for outcome in Outcome)], rows)


def missed(detection: Detection) -> Iterator[str]:
    """Yield a line for each cheat that is missed at the lower rate, the most missed first."""
    rate = RATES[-1]
    shares = {name: detection.of_accounts(ALL, rate, name) for name in detection.cheats}
    for name, share in sorted(shares.items(), key=lambda pair: pair[1].hits / pair[1].of):
        if share.hits < MISSED * share.of:
            runs = percent(detection.of_runs(ALL, rate, name))
            accounts = percent(share)
            yield f"- missed at {100 * rate:g} %: {name}: {runs} of its runs, {accounts} of its accounts"


def lines(measurement: Measurement) -> Iterator[str]:
    """Yield the whole report of a measurement."""
    honest = sum(run.is_honest for run in measurement.runs)
    yield f"{honest} honest runs, {len(measurement.runs) - honest} cheating ones"
    for title, part in (
        ("A board that replays: what re-simulation bears out is learnt", measurement.replayed),
        ("A board without replay: what the policy does not hold is learnt", measurement.unreplayed),
    ):
        yield from ("", f"## {title}", "", *detected(part), "", *missed(part))
        yield from ("", "False positives among the honest accounts that no threshold was set on:", "")
        yield from false_positives(part)
    yield from ("", "## Where runs end under policies/arcade.yaml", "")
    yield from operating_point(measurement.runs, measurement.outcomes)
    yield from ("", f"Stolen recordings refused by the game's own seeds: {percent(measurement.refused, 1)}")
