"""A producer of rows and events: a video job, or a service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Producer:
    """A producer as its capability describes it."""

    kind: str
    """Its capability: video, joint. Types of its CloudEvents are modelmill.<kind>.row."""
    uid: str
    """Unique among producers of all kinds."""
    owner: str
    title: str
    """Its name on pages."""
    place: str
    """Its path in the API, which is the source of its CloudEvents."""
    page: str
    """Path of its page."""
    area: str
    """Menu entry of its pages."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts that are added to the data of each CloudEvent."""
    has_events: bool = False
    """True if rules can be set for it."""
    is_over: bool = False
    """True if it has ended."""
