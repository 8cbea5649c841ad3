"""Who is on a list of users and groups."""

from __future__ import annotations

import pytest

from app.kit.access import EVERYBODY, AccessRule, BadAccess, Member, names_in, read_allowed

ALICE = Member("alice", ("lab", "night"))


@pytest.mark.parametrize(
    ("names", "is_admitted"),
    [
        (["alice"], True),
        (["@lab"], True),
        (["bob", "@night"], True),
        (["lab"], False),
        (["@alice"], False),
        (["bob"], False),
        ([], False),
        (None, True),
    ],
)
def test_a_user_is_admitted_by_name_or_by_a_group(names: list[str] | None, is_admitted: bool) -> None:
    assert read_allowed(names).admits(ALICE) is is_admitted


def test_an_administrator_is_admitted_by_every_list_and_a_stranger_by_none_but_everybodys() -> None:
    assert AccessRule(()).admits(Member("boss", is_admin=True))
    assert not AccessRule(()).admits(Member("")) and not AccessRule(("alice",)).admits(Member(""))
    assert EVERYBODY.admits(Member("anybody"))


@pytest.mark.parametrize("names", [["Alice"], [""], ["@"], ["a b"], ["@@lab"], ["*"], [f"u{n}" for n in range(201)]])
def test_what_can_be_no_name_is_refused(names: list[str]) -> None:
    with pytest.raises(BadAccess):
        read_allowed(names)


def test_a_typed_line_is_taken_apart_and_a_list_comes_back_sorted_and_once() -> None:
    assert names_in(" bob, @lab\n alice ") == ["bob", "@lab", "alice"]
    assert read_allowed(names_in("bob alice bob")).to_json() == ["alice", "bob"]
    assert names_in("") == []
