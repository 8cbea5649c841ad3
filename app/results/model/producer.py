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
    picture: str
    """Path of its newest picture, on which zones are drawn."""
    subject: str
    """Subject of its notifications; their kind starts with its first part."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts that are added to the data of each CloudEvent."""
    is_recorded: bool = False
    """True if its drawn picture is recorded, so that there are clips of its events."""
    is_over: bool = False
    """True if it has ended."""
    is_fleet: bool = False
    """True if its rows name their node."""
    by_pts: bool = False
    """True if the time of its rules is that in the source, if a row has one, and not that of the node's clock."""
