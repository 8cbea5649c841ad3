"""How a sink is described."""

from __future__ import annotations

from app.results.model.sink import MOST_COUNTED, format_backlog


def test_a_backlog_that_was_not_counted_to_its_end_is_said_to_be_longer() -> None:
    assert (format_backlog(0), format_backlog(MOST_COUNTED - 1)) == ("0", "9,999")
    assert format_backlog(MOST_COUNTED) == "10,000+"
