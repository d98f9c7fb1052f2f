"""The arguments of the commands that write a page of a rebuild: lists, without an object for each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from gateway.index import keys
from gateway.index.ranges import zset_at, zsets_of
from gateway.shared_records import StandingPage
from policies.ranking import BoardPlace, Ranking


class StandingArguments(NamedTuple):
    """Arguments for a page of standings: of ZADD by ZSET, of HSET for slots and names, of ZADD for groups."""

    zsets: Mapping[str, list[Any]]
    slots: list[Any]
    names: list[Any]
    groups: list[Any]


def standing_arguments(ranking: Ranking, window: str, zset: str, page: StandingPage) -> StandingArguments:
    """Return the arguments that write standings of a window with this key. The inner loop of a rebuild."""
    players, names, scores, orders, members, seqs, submissions = page
    slots = list(map(keys.slot_text, seqs, players, members, submissions))
    placed = list(zip(orders, members, strict=True))
    if None in scores:
        placed = list(compress(placed, (score is not None for score in scores)))
    named = list(zip(players, names, strict=True))
    if "" in names:
        named = list(compress(named, names))
    groups = _groups(ranking, window, placed) if ranking.keeps_groups else []
    return StandingArguments(_by_zset(zset, placed), interleaved(players, slots), list(chain(*named)), groups)


def interleaved(fields: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return each field before its value."""
    pairs: list[Any] = [None] * (2 * len(fields))
    pairs[::2], pairs[1::2] = fields, values
    return pairs


def _by_zset(window: str, placed: Sequence[tuple[int, str]]) -> dict[str, list[Any]]:
    if len(zsets_of(window)) == 1:
        return {zset_at(window, 0): list(chain.from_iterable(placed))}
    by_zset: defaultdict[str, list[Any]] = defaultdict(list)
    for order, member in placed:
        by_zset[zset_at(window, order)] += (order, member)
    return by_zset


def _groups(ranking: Ranking, window: str, placed: Iterable[tuple[int, str]]) -> list[Any]:
    groups = {keys.group_of(ranking, window, BoardPlace(*place)) for place in placed}
    return list(chain.from_iterable(groups))
