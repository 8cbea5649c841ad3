"""Which connection is a node's, and when it is told again what it has not acknowledged."""

from __future__ import annotations

from app.nodes.access import Links, SentOrders
from app.nodes.commands import cloud_of
from app.nodes.model import REPEAT_S, Operation, Order, WorkKey


def order(seq: int) -> Order:
    return Order(seq, "edge0", WorkKey("k", f"u{seq}", "edge"), "default", "x", Operation.INSERT, 1, {})


def test_what_is_pending_is_sent_at_once_and_again_after_a_while() -> None:
    sent = SentOrders()
    one, two = order(1), order(2)
    assert sent.due([one], 100.0) == [one]
    assert sent.due([one, two], 101.0) == [two]
    assert sent.wait_s(101.0) == REPEAT_S - 1
    assert sent.due([one, two], 100.0 + REPEAT_S) == [one]
    assert sent.due([one, two], 101.0 + REPEAT_S) == [two]


def test_what_is_no_longer_pending_is_forgotten() -> None:
    sent = SentOrders()
    sent.due([order(1)], 100.0)
    assert sent.due([], 101.0) == []
    assert sent.wait_s(101.0) == REPEAT_S
    assert sent.due([order(1)], 102.0) == [order(1)]


def test_a_node_that_connects_anew_is_told_all_at_once() -> None:
    sent = SentOrders()
    sent.due([order(1)], 100.0)
    sent.forget()
    assert sent.due([order(1)], 100.1) == [order(1)]


def test_what_was_due_long_ago_is_waited_for_no_longer() -> None:
    sent = SentOrders()
    sent.due([order(1)], 100.0)
    assert sent.wait_s(1000.0) == 0


def test_the_newest_connection_of_a_node_is_its_own_whichever_ends_first() -> None:
    links = Links()
    with links.connect("edge0") as first, links.connect("edge1") as other:
        with links.connect("edge0") as second:
            assert (first.is_set(), second.is_set()) == (True, False)
        with links.connect("edge0") as third:
            assert (second.is_set(), third.is_set(), other.is_set()) == (False, False, False)
    first_again, second_again = links.connect("edge0"), links.connect("edge0")
    one = first_again.__enter__()
    two = second_again.__enter__()
    first_again.__exit__(None, None, None)
    with links.connect("edge0"):
        assert (one.is_set(), two.is_set()) == (True, True)
    second_again.__exit__(None, None, None)


def test_the_address_that_a_node_dials_is_the_webs() -> None:
    assert cloud_of("http://host:8080") == "ws://host:8080"
    assert cloud_of("https://mill.example/at") == "wss://mill.example/at"
