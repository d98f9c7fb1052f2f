"""The tree: its roots and paths are those of the RFC, whatever the number of leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger.seals.merkle import Fold, inclusion_path, leaf_hash, node_hash, root_by_path, root_of

ENTRIES = [bytes.fromhex(each) for each in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""The roots of the first 0 to 8 entries, as Certificate Transparency's own reference tests have them."""


def naive_root(entries: Sequence[bytes]) -> bytes:
    """MTH, written off RFC 9162, §2.1.1."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = split(len(entries))
    return hashlib.sha256(b"\x01" + naive_root(entries[:k]) + naive_root(entries[k:])).digest()


def naive_path(m: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH, written off RFC 9162, §2.1.3.1."""
    if len(entries) == 1:
        return []
    k = split(len(entries))
    if m < k:
        return [*naive_path(m, entries[:k]), naive_root(entries[k:])]
    return [*naive_path(m - k, entries[k:]), naive_root(entries[:k])]


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


@pytest.mark.parametrize("count", range(9))
def test_roots_are_those_of_certificate_transparency(count: int):
    """Known answers for none to eight leaves."""
    assert ROOTS[count] == root_of(leaf_hash(entry) for entry in ENTRIES[:count]).hex()


def test_paths_are_those_of_the_example():
    """The tree of seven leaves of RFC 9162, §2.1.5, node by node under its letters."""
    a, b, c, d, e, f, j = leaves = [leaf_hash(b"d%d" % n) for n in range(7)]
    g, h, i = node_hash(a, b), node_hash(c, d), node_hash(e, f)
    k, m = node_hash(g, h), node_hash(i, j)

    assert node_hash(k, m) == root_of(leaves)
    assert [b, h, m] == inclusion_path(leaves, 0)
    assert [c, g, m] == inclusion_path(leaves, 3)
    assert [f, j, k] == inclusion_path(leaves, 4)
    assert [i, k] == inclusion_path(leaves, 6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=3), max_size=70))
def test_roots_are_those_of_the_definition(entries: list[bytes]):
    """Folded one by one, the root after each leaf is that of the recursive definition, in few hashes of memory."""
    fold = Fold()
    assert naive_root([]) == fold.root()
    for count, entry in enumerate(entries, start=1):
        fold.append(leaf_hash(entry))
        assert naive_root(entries[:count]) == fold.root()
        assert len(fold._stack) == count.bit_count()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_paths_are_those_of_the_definition_and_lead_to_the_root(data: st.DataObject):
    """Every leaf's path is PATH, and the check of the RFC accepts it."""
    entries = data.draw(st.lists(st.binary(max_size=3), min_size=1, max_size=70))
    index = data.draw(st.integers(0, len(entries) - 1))
    leaves = [leaf_hash(entry) for entry in entries]

    path = inclusion_path(leaves, index)

    assert naive_path(index, entries) == path
    assert naive_root(entries) == root_by_path(leaves[index], index, len(leaves), path)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_M09_a_path_that_is_not_the_leafs_leads_elsewhere(data: st.DataObject):
    """Another place, size, leaf, or a path with a bit flipped, a step more, fewer or swapped: never the same root."""
    count = data.draw(st.integers(2, 40))
    leaves = [leaf_hash(b"%d" % n) for n in range(count)]
    index = data.draw(st.integers(0, count - 1))
    path = inclusion_path(leaves, index)
    step = data.draw(st.integers(0, len(path) - 1))
    flipped = bytearray(path[step])
    flipped[data.draw(st.integers(0, 31))] ^= 1 << data.draw(st.integers(0, 7))
    wrong = [
        (leaves[index], index, count, [*path[:step], bytes(flipped), *path[step + 1 :]]),
        (leaves[index], index, count, path[:step] + path[step + 1 :]),
        (leaves[index], index, count, [*path, path[0]]),
        (leaves[index - 1], index, count, path),
        (leaves[index], (index + 1) % count, count, path),
        (leaves[index], -1, count, path),
        (leaves[index], count, count, path),
    ]
    assert not [each for each in wrong if root_by_path(*each) == root_of(leaves)]


def test_a_path_of_another_length_leads_nowhere():
    """By its length alone: it is no path of that leaf, whatever its hashes."""
    leaves = [leaf_hash(b"%d" % n) for n in range(7)]
    for index in range(7):
        path = inclusion_path(leaves, index)
        for wrong in (path[:-1], [*path, leaves[0]], [*path, *path]):
            assert root_by_path(leaves[index], index, 7, wrong) is None
