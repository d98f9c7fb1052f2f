"""Comparison of addresses of Redis: whether two texts name the same boards, whatever else they say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from gateway.runtime.settings import CLUSTER_URL

_NODE: Final = re.compile(r"(?:.*@)?(\[.*\]|[^:]*)(?::(\d+))?")
_PORT: Final = 6379
_THIS_MACHINE: Final = frozenset({"", "localhost", "127.0.0.1", "[::1]"})


class _RedisPlace(NamedTuple):
    """The nodes by which a Redis is found, and its database; a cluster has none."""

    nodes: frozenset[tuple[str, int]]
    database: int | None


def is_same_redis(one: str, other: str) -> bool:
    """Return whether two valid URLs lead to one Redis.

    A node belongs to one cluster, so one in common is enough.
    """
    first, second = _place_of(one), _place_of(other)
    return first.database == second.database and not first.nodes.isdisjoint(second.nodes)


def different_ones(urls: Iterable[str]) -> list[str]:
    """Return one URL for each Redis, sorted."""
    different: list[str] = []
    for url in sorted(set(urls)):
        if not any(is_same_redis(url, each) for each in different):
            different.append(url)
    return different


def _place_of(url: str) -> _RedisPlace:
    if cluster := CLUSTER_URL.fullmatch(url):
        return _RedisPlace(frozenset(_node(seed) for seed in cluster["seeds"].split(",")), None)
    parts = urlsplit(url)
    # The database of the options goes before that of the path (redis-py, `parse_url`).
    database = parse_qs(parts.query).get("db", [""])[0]
    if parts.scheme == "unix":
        return _RedisPlace(frozenset({(unquote(parts.path), 0)}), _number(database))
    return _RedisPlace(frozenset({_node(parts.netloc)}), _number(database or parts.path.strip("/")))


def _node(text: str) -> tuple[str, int]:
    match = _NODE.fullmatch(text)
    host, port = (match[1].lower(), match[2]) if match else (text, None)
    return ("localhost" if host in _THIS_MACHINE else host), int(port or _PORT)


def _number(database: str) -> int:
    return int(database) if database.isdecimal() else 0
