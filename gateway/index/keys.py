"""The keys of the index, and the encodings of its slots and baselines.

Every key of a board has the hash tag of the board's lane, and those of a shard have a tag of the shard's own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

from gateway.runtime.lanes import lane_of
from gateway.shared_records import BaselineFacts, Standing, StoredBaseline
from policies.ranking import BoardPlace, Ranking
from validators.baseline import Baseline

POPULATION_FIELD = "*"
"""Field of the board's population in a baselines hash; no player id can be an asterisk."""

SAME = "="
"""The member in a slot where it equals the player's id, as on composite boards."""

BELOW = "-"
"""The member in a slot whose standing is below the ranks that the board keeps."""

BELOW_FIELD = "*"
"""Field of a members hash that counts the standings below; no player id can be an asterisk."""


def pending(board: str) -> str:
    """ZSET: submission id by the time it was received (ms)."""
    return f"{stem(board)}pending"


def settled(board: str) -> str:
    """ZSET: submission ids that were decided within the last hour, by when (ms)."""
    return f"{stem(board)}settled"


def window(board: str, name: str) -> str:
    """ZSET: the canonical board of a window; member by order value."""
    return f"{stem(board)}{name}"


def window_range(board: str, name: str, number: int) -> str:
    """ZSET: one range of a window, on boards with `ranges`; 0 is the best."""
    return f"{window(board, name)}:range:{number}"


def members(board: str, name: str) -> str:
    """HASH: player to `<seq> <member> <submission>`; the member is empty once nothing counts any more.

    With `exact_ranks` a player below those has `<seq> -`, and `*` has `<version> <count>` of such players.
    """
    return f"{stem(board)}{name}:members"


def groups(board: str, name: str) -> str:
    """ZSET: the distinct scores of a window with tie fields, `<score> <ties>` by score; for dense ranks."""
    return f"{stem(board)}{name}:groups"


def sketch(board: str, name: str) -> str:
    """HASH: `sketch`, the KLL sketch of a window (bytes), and its `seq`, `begun_at_ms` and `version`."""
    return f"{stem(board)}{name}:sketch"


def names(board: str) -> str:
    """HASH: player to display name."""
    return f"{stem(board)}names"


def baselines(board: str) -> str:
    """HASH: player, or `*`, to `<seq> <count> <mean> <squares>`."""
    return f"{stem(board)}baselines"


def changes(board: str) -> str:
    """Return the key of the stream that has a board's changes: its lane's, or for a shard its own."""
    return shard_changes(board) if is_shard(board) else lane_changes(lane_of(board))


def shard_changes(board: str) -> str:
    """STREAM: every change of a standing in a shard, until it is copied to the lane of its board."""
    return f"{stem(board)}changes"


def lane_changes(lane: int) -> str:
    """STREAM: every change of a standing on the boards of a lane, for the live feed and derived data."""
    return f"lb:{{{lane}}}:changes"


def announced(lane: int) -> str:
    """STRING: id of the last change of a lane that an edge claimed to announce on the channels of news."""
    return f"lb:{{{lane}}}:announced"


def news(board: str) -> str:
    """Pub/Sub channel: a board's newest changes. Subscribers name it, so it does not change with the keys."""
    return f"lb:{{{board}}}:news"


def version(board: str) -> str:
    """STRING: the name of a board's current pages. A projected change names the next, another deletes it."""
    return f"{stem(board)}version"


def moves(board: str) -> str:
    """LIST: the newest versions of a board's pages, each followed by the moves that made it of the next."""
    return f"{stem(board)}moves"


def open_runs(board: str, player: str) -> str:
    """ZSET: runs a player has open, by the time their ticket expires (ms)."""
    return f"{stem(board)}open:{player}"


def run_counts(board: str, player: str) -> str:
    """HASH: a player's runs per hour since 1970, `opened:<hour>` and `submitted:<hour>`."""
    return f"{stem(board)}runs:{player}"


def limit(board: str, kind: str, who: str) -> str:
    """STRING: `<requests> <KiB>`, theoretical arrival times (µs, GCRA) of a player id or hashed address."""
    return f"{stem(board)}limit:{kind}:{who}"


def parts() -> str:
    """ZSET: the running parts of the deployment, by when they count as gone (ms)."""
    return "{parts}:seen"


def part_reports() -> str:
    """HASH: part to its report: its kind, the digest of its policies, and the duties that fail (JSON)."""
    return "{parts}:said"


def refusals(board: str, kind: str, who: str) -> str:
    """STRING: `<refusals> <limited until (ms)> <refusals before>` of a player or hashed address."""
    return f"{stem(board)}refused:{kind}:{who}"


def opening_limit(family: str, kind: str, who: str) -> str:
    """STRING: arrival times (µs) for the limit on boards that a player, a hashed address or network opens."""
    return f"limit:{{{family}}}:openings:{kind}:{who}"


def player_creation(network: str, address: str) -> str:
    """STRING: theoretical arrival times (µs) of new players of a hashed address or its network."""
    return f"limit:{{{network}}}:players:{address}"


def profile_changes(network: str, address: str) -> str:
    """STRING: theoretical arrival times (µs) of profile changes by the players of a hashed address."""
    return f"limit:{{{network}}}:profile:{address}"


def login_address(network: str, address: str) -> str:
    """STRING: theoretical arrival times (µs) of logins of moderators from a hashed address or its network."""
    return f"limit:{{{network}}}:logins:{address}"


def login_account(moderator: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on logins to a moderator's account."""
    return f"limit:{{{moderator}}}:login"


def shown_again(moderator: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on passwords and codes shown again in a session."""
    return f"limit:{{{moderator}}}:shown_again"


def recovery_address(network: str, address: str) -> str:
    """STRING: theoretical arrival times (µs) of recovery codes tried by a hashed address or its network."""
    return f"limit:{{{network}}}:recovery:{address}"


def own_name(player: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on names that a player chooses."""
    return f"limit:{{{player}}}:name"


def own_export(player: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on copies that a player gets of their data."""
    return f"limit:{{{player}}}:export"


def downloads(network: str, address: str) -> str:
    """STRING: `<requests> <KiB>`, theoretical arrival times (µs, GCRA) of downloads by a hashed address."""
    return f"limit:{{{network}}}:downloads:{address}"


def uploads(key_id: str) -> str:
    """STRING: `<requests> <KiB>`, theoretical arrival times (µs, GCRA) of the uploads of a server's key."""
    return f"limit:{{{key_id}}}:uploads"


FRIENDS_BUCKETS: Final = 64
"""Keys that share the copies of friend lists. Each has its own bound, and on a cluster its own slot."""


def friends_bucket(player: str) -> int:
    """Return the bucket of the copy of a player's list."""
    return crc32(player.encode()) % FRIENDS_BUCKETS


def friends(bucket: int) -> str:
    """HASH: player to `<until (µs)> <version> <friend> ...`; `*` to the size of all of them in bytes."""
    return f"friends:{{{bucket}}}"


def friends_used(bucket: int) -> str:
    """ZSET: the players of these copies, by last use (µs)."""
    return f"friends:{{{bucket}}}:used"


def profile_limit(player: str) -> str:
    """STRING: theoretical arrival time (µs) of the limit on changes of a player's own profile."""
    return f"limit:{{{player}}}:profile"


def circle(board: str, player: str, version: int, name: str) -> str:
    """ZSET: the members of a window that belong to the player or to players on this version of their list."""
    return f"{stem(board)}circle:{player}:{version}:{name}"


def circle_members(board: str, player: str, version: int, name: str) -> str:
    """HASH: player to member in the circle, empty for none; `*` to the newest change in it."""
    return f"{stem(board)}circle:{player}:{version}:{name}:members"


def group_mark(lane: int, group: str) -> str:
    """STRING: exists while a consumer has missed nothing of a lane: `1`, or `0` before its first change."""
    return f"derived:{{{lane}}}:group:{group}"


def distinct_players(board: str) -> str:
    """STRING: HyperLogLog of every player that ever submitted to a board."""
    return f"derived:{tag(board)}:{board}:players"


def distinct_players_mark(lane: int) -> str:
    """STRING: `1` while no estimate of a lane was lost, `0` while they are counted again."""
    return f"derived:{{{lane}}}:players"


def distinct_players_built(board: str, name: str) -> str:
    """STRING: the same, while it is counted again."""
    return f"derived:{tag(board)}:{board}:players:built:{name}"


def memberships(board: str) -> str:
    """HASH: player to `<version> <segment>:<value> ...`, the groups they are in."""
    return f"{stem(board)}memberships"


def segment(board: str, segment: str, value: str, name: str) -> str:
    """ZSET: the members of a window whose players are in a group; member by order value."""
    return f"{stem(board)}segment:{segment}:{value}:{name}"


def segmented(board: str, name: str) -> str:
    """HASH: player to `<member> <segment>:<value> ...`, their member and groups in a window."""
    return f"{stem(board)}{name}:segmented"


def relayed(board: str) -> str:
    """HASH: shard to the id of the last change copied from its stream to the board's."""
    return f"{stem(board)}relayed"


def sentinel(board: str) -> str:
    """STRING: exists while the index holds the whole board."""
    return f"{stem(board)}whole"


def cold(board: str) -> str:
    """HASH: exists while the windows are only in the ledger: `*` to its start (ms), changes to their seq."""
    return f"{stem(board)}cold"


def used(board: str) -> str:
    """STRING: exists while a board that may go cold was used recently."""
    return f"{stem(board)}used"


def residents(lane: int) -> str:
    """ZSET: the boards of a lane that have keys, by when they were last compared with the ledger (ms)."""
    return f"lb:{{{lane}}}:residents"


def idle(lane: int) -> str:
    """ZSET: the residents that may go cold, by when they do unless they are used (ms)."""
    return f"lb:{{{lane}}}:idle"


def wanted(lane: int) -> str:
    """ZSET: the boards of a lane that were read or changed and are not whole, by when that began (ms)."""
    return f"lb:{{{lane}}}:wanted"


def tails(lane: int) -> str:
    """ZSET: boards with `exact_ranks` whose heads or sketches may lack changes, by when to look (ms)."""
    return f"lb:{{{lane}}}:tails"


def lease(board: str) -> str:
    """STRING: the generation of the current rebuild; it expires if the builder dies."""
    return f"{stem(board)}building"


def built(board: str, generation: str, live: str) -> str:
    """Return the key in which a rebuild makes the successor of a live one."""
    return f"{stem(board)}built:{generation}:{live.removeprefix(stem(board))}"


def is_shard(board: str) -> bool:
    """Return whether this is the name of a shard, `<board>/<number>`, and not of a board."""
    return "/" in board


@lru_cache(maxsize=4096)
def tag(board: str) -> str:
    """Return the hash tag of a board's keys: its lane. A shard, `<board>/<number>`, has its own."""
    return f"{{{board if is_shard(board) else lane_of(board)}}}"


@lru_cache(maxsize=4096)
def stem(board: str) -> str:
    """Return the prefix of all keys of a board, or of a shard of one."""
    return f"lb:{tag(board)}:{board}:"


def slot_value(standing: Standing) -> str:
    """Return a standing's slot in the members hash."""
    return slot_text(standing.seq, standing.player, standing.member, standing.submission_id)


def slot_text(seq: int, player: str, member: str, submission_id: str) -> str:
    """Return the slot of a player with this member."""
    return f"{seq} {SAME if member == player else member} {submission_id}"


def slot_member(slot: str, player: str) -> str:
    """Return the member in a player's slot; empty if nothing counts."""
    member = slot.split(" ")[1]
    return player if member == SAME else "" if member == BELOW else member


def slot_below(standing: Standing) -> str:
    """Return the slot of a standing below the ranks that the board keeps."""
    return f"{standing.seq} {BELOW}"


def group_of(ranking: Ranking, window: str, place: BoardPlace) -> tuple[int, str]:
    """Return the score and member of the group of a place."""
    order, ties = ranking.group(window, place)
    return order, f"{order} {ties}"


def baseline_field(stored: StoredBaseline) -> str:
    """Return the field of a stored baseline."""
    return stored.player or POPULATION_FIELD


def baseline_value(stored: StoredBaseline) -> str:
    """Return the value of a stored baseline."""
    ends = stored.lowest, stored.highest
    return baseline_text((stored.seq, stored.count, stored.mean, stored.squares, *ends, stored.scores))


def baseline_text(facts: BaselineFacts) -> str:
    """Return the value of a baseline; `repr` of a float reads back as the same float."""
    seq, count, mean, squares, lowest, highest, scores = facts
    first, last = "" if lowest is None else lowest, "" if highest is None else highest
    return f"{seq} {count} {mean!r} {squares!r} {first} {last} {','.join(map(str, scores))}"


@lru_cache(maxsize=256)
def baseline_from_value(value: str) -> Baseline:
    """Return the baseline in a value; cached, because every submission reads that of a population."""
    _, count, mean, squares, lowest, highest, scores = value.split(" ")
    return Baseline(
        int(count),
        float(mean),
        float(squares),
        tuple(map(int, scores.split(","))) if scores else (),
        int(lowest) if lowest else None,
        int(highest) if highest else None,
    )


def probe(lane: int) -> str:
    """STRING: a constant that the readiness check writes, to see whether a lane's Redis takes writes."""
    return f"scoregate:probe:{{{lane}}}"


def layout() -> str:
    """HASH: `is`, the layout of the keys, once no others are left; `removed`, how many of others were."""
    return "scoregate:layout"
