"""Server-sent events, line by line. Pure.

By hand: httpx-sse keeps comments to itself, and the pings between events are when a watch looks at its deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class EventParser:
    """Is given lines without their ends; answers with an event once it is whole."""

    def __init__(self) -> None:
        self._event = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> tuple[str, str] | None:
        """Its name and its data, when this line ends it."""
        if not line:
            whole = (self._event, "\n".join(self._data)) if self._data else None
            self._event, self._data = "message", []
            return whole
        if line.startswith("event:"):
            self._event = line[6:].strip()
        elif line.startswith("data:"):
            text = line[5:]
            self._data.append(text[1:] if text.startswith(" ") else text)
        return None


def events_of(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and data of each event in a stream's lines."""
    parser = EventParser()
    return (whole for line in lines if (whole := parser.feed(line)) is not None)
