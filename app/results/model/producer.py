"""A producer of rows and events: a video job, or a service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Producer:
    """As its capability describes it to those who keep its results."""

    kind: str
    """Its capability: video, joint. In the types of CloudEvents: modelmill.<kind>.row."""
    uid: str
    """Of all producers, of whichever kind."""
    owner: str
    title: str
    """As its pages call it."""
    place: str
    """Path of it in the API: the source of its CloudEvents."""
    page: str
    """Path of its page."""
    area: str
    """Entry of the menu that its pages belong to."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """In the data of each CloudEvent."""
    has_events: bool = False
    """Rules can be set for it."""
    is_over: bool = False
    """It makes nothing any more."""
