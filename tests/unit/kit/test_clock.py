"""Times as texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.kit.clock import to_text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 11, 20, 20, 43, 2, 125_999, UTC), "2026-11-20T20:43:02.125Z"),
        (datetime(2026, 11, 20, 20, 43, 2, 999, UTC), "2026-11-20T20:43:02.000Z"),
        (datetime(2026, 11, 20, 20, 43, 2, 0, UTC), "2026-11-20T20:43:02.000Z"),
        (datetime(2026, 11, 20, 2, 43, 2, 500_000, timezone(timedelta(hours=8))), "2026-11-19T18:43:02.500Z"),
        (datetime(999, 1, 2, 3, 4, 5, 60_000, UTC), "0999-01-02T03:04:05.060Z"),
    ],
)
def test_a_time_is_a_text_in_utc_with_milliseconds(moment: datetime, text: str) -> None:
    assert to_text(moment) == text
