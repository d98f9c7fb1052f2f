"""What a submission could do is put into one number, which orders the work and decides nothing."""

from __future__ import annotations

from itertools import product

import pytest

from validators.verification_priority import HARMS, URGENT, PromotionImpact, expected_harm, must_verify


@pytest.mark.parametrize(
    ("prospect", "is_flagged", "harm"),
    [
        (PromotionImpact(counts=False, enters_top=False, is_newcomer=False, gain=0), True, 0),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=False, gain=5), False, 1),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=True, gain=0), False, 2),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=False, gain=5), True, 4),
        (PromotionImpact(counts=True, enters_top=True, is_newcomer=False, gain=5), False, 4),
        (PromotionImpact(counts=True, enters_top=True, is_newcomer=True, gain=0), False, 8),
        (PromotionImpact(counts=True, enters_top=True, is_newcomer=True, gain=0), True, 16),
    ],
)
def test_the_harm_is_the_damage_times_the_suspicion(prospect: PromotionImpact, is_flagged: bool, harm: int):
    """Nothing changes: 0. An own best: 1. The top, a newcomer, a flag: more, and urgent from 4 on."""
    assert harm == expected_harm(prospect, is_flagged=is_flagged)
    assert (harm >= URGENT) == (prospect.enters_top or (prospect.counts and is_flagged))


def test_every_harm_is_one_that_is_asked_for():
    """What waits is read harm by harm; one that is not on the list would wait for ever."""
    facts = product((False, True), repeat=4)
    assert set(HARMS) == {
        expected_harm(PromotionImpact(counts, top, newcomer, 0), is_flagged=flagged)
        for counts, top, newcomer, flagged in facts
    }


@pytest.mark.parametrize(
    ("prospect", "is_due"),
    [
        (PromotionImpact(counts=False, enters_top=True, is_newcomer=True, gain=999), False),
        (PromotionImpact(counts=True, enters_top=True, is_newcomer=False, gain=0), True),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=True, gain=0), True),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=False, gain=100), False),
        (PromotionImpact(counts=True, enters_top=False, is_newcomer=False, gain=101), True),
    ],
)
def test_M18_what_is_verified_whatever_the_draw(prospect: PromotionImpact, is_due: bool):
    """Only what counts: in the top, a newcomer's, or a gain of more than is allowed, which a gain of just that is not."""
    assert is_due is must_verify(prospect, allowed_gain=100)
