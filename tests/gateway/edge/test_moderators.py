"""What the roles of moderators allow them, and where."""

from __future__ import annotations

import pytest

from gateway.edge.auth.moderator_credentials import narrowed
from gateway.edge.auth.moderators import Ability, Moderator, ModeratorRole


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (ModeratorRole.VIEWER, {Ability.READ}),
        (ModeratorRole.MODERATOR, {Ability.READ, Ability.DECIDE}),
        (ModeratorRole.SENIOR, {Ability.READ, Ability.DECIDE, Ability.OVERRULE}),
        (ModeratorRole.ADMIN, set(Ability)),
    ],
)
def test_each_role_has_the_abilities_of_the_smaller_ones(role: ModeratorRole, allowed: set[Ability]):
    moderator = Moderator("mara", {"sprint": role})
    assert {ability for ability in Ability if moderator.may(ability, "sprint")} == allowed


def test_a_family_is_a_scope_of_all_its_boards():
    moderator = Moderator("mara", {"track": ModeratorRole.MODERATOR})
    assert moderator.may(Ability.DECIDE, "track.monza")
    assert moderator.may(Ability.DECIDE, "track")
    assert not moderator.may(Ability.READ, "trackside.monza")
    assert not moderator.may(Ability.READ, "*")


def test_a_board_of_a_family_does_not_open_the_family():
    moderator = Moderator("mara", {"track.monza": ModeratorRole.ADMIN})
    assert moderator.may(Ability.ADMINISTER, "track.monza")
    assert not moderator.reaches("track")
    assert not moderator.reaches("track.spa")


def test_the_greatest_role_of_all_scopes_counts():
    moderator = Moderator("mara", {"*": ModeratorRole.VIEWER, "track": ModeratorRole.SENIOR})
    assert moderator.may(Ability.OVERRULE, "track.spa")
    assert moderator.reaches("sprint")
    assert not moderator.may(Ability.DECIDE, "sprint")


def test_scopes_name_what_a_list_across_boards_may_show():
    moderator = Moderator("mara", {"*": ModeratorRole.VIEWER, "track": ModeratorRole.SENIOR})
    assert moderator.scopes(Ability.READ) == {"*"}
    assert moderator.scopes(Ability.DECIDE) == {"track"}
    assert moderator.scopes(Ability.ADMINISTER) == frozenset()


def test_a_list_across_boards_asks_for_the_ability_on_any():
    moderator = Moderator("mara", {"sprint": ModeratorRole.VIEWER, "track": ModeratorRole.SENIOR})
    assert moderator.may(Ability.OVERRULE, None)
    assert not moderator.may(Ability.ADMINISTER, None)
    assert moderator.reaches(None)
    assert not Moderator("noor", {}).reaches(None)


def test_a_token_does_no_more_than_its_ability_and_its_scopes():
    """Nor more than the account: a scope on which that has nothing is nothing."""
    moderator = Moderator(
        "mara", {"track": ModeratorRole.ADMIN, "sprint": ModeratorRole.VIEWER}, frozenset({"p1"})
    )
    every = narrowed(moderator, Ability.DECIDE, ())
    assert {"track": ModeratorRole.MODERATOR, "sprint": ModeratorRole.VIEWER} == every.grants
    assert ("mara", frozenset({"p1"})) == (every.name, every.players)
    one = narrowed(moderator, Ability.OVERRULE, ("track.monza", "vault", "*"))
    assert {"track.monza": ModeratorRole.SENIOR} == one.grants
    assert not narrowed(moderator, Ability.DECIDE, ("vault",)).reaches(None)
