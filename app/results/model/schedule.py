"""When a rule applies: hours of days of the week, in a time zone. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

TIME_OF_DAY = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


class Weekday(StrEnum):
    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


WEEK = tuple(Weekday)


@dataclass(frozen=True)
class Schedule:
    """A period of the chosen days. One that ends before it starts ends on the next day."""

    days: tuple[Weekday, ...] = WEEK
    """On which it starts."""
    start: str = "00:00"
    """Hour and minute, included."""
    end: str = "00:00"
    """Hour and minute, excluded; equal to the start: 24 hours later."""
    timezone: str = "UTC"
    """IANA name, such as Europe/Berlin."""

    def covers(self, moment: datetime) -> bool:
        """Whether the moment is in one of its periods. One with an unknown time zone has none; see `problem`."""
        zone = zone_of(self.timezone)
        if zone is None:
            return False
        local = moment.astimezone(zone)
        time, today = f"{local:%H:%M}", WEEK[local.weekday()]
        yesterday = WEEK[(local - timedelta(days=1)).weekday()]
        if self.start < self.end:
            return today in self.days and self.start <= time < self.end
        return (today in self.days and time >= self.start) or (yesterday in self.days and time < self.end)

    @property
    def problem(self) -> str:
        """Why it is not valid; empty: it is."""
        if not self.days:
            return "has no day"
        if not all(re.match(TIME_OF_DAY, time) for time in (self.start, self.end)):
            return "has a time that is not written like 22:30"
        return "" if zone_of(self.timezone) else f"has the unknown time zone {self.timezone[:64]!r}"


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of this IANA name; None: there is none."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # a folder, or a path that leads out of the database
        return None
