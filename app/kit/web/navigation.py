"""The menu of every page, and the targets of the palette: declared by the capabilities, in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from app.kit.web.state import AppState, features_of

if TYPE_CHECKING:
    from starlette.requests import Request

Condition = Callable[[frozenset[str], bool], bool]
"""Whether the entry is shown to this reader: by the installation's features, and whether the reader is an
administrator."""


class Area(StrEnum):
    """The headings of the menu in order. The values are texts of the catalog."""

    CONVERSION = "Conversion"
    TRAINING = "Training"
    EDGE = "Edge"
    WORKSPACE = "Workspace"


def everybody(_features: frozenset[str], _is_admin: bool) -> bool:
    return True


def administrators(_features: frozenset[str], is_admin: bool) -> bool:
    """The condition of what only administrators see."""
    return is_admin


def where_there_is(feature: str) -> Condition:
    """Shown to everybody."""
    return lambda features, _is_admin: feature in features


@dataclass(frozen=True)
class NavigationEntry:
    """An entry of the menu or the palette."""

    area: Area
    position: int
    """Its position among the entries of its area, whichever capability declares them. Positions must be unique."""
    label: str
    """In English; a text of the catalog."""
    url: str
    name: str = ""
    """The `area` of the pages below it, with which the menu marks the current page. Entries without one are not in the
    menu, but in the palette."""
    condition: Condition = everybody
    is_searched: bool = False
    """Whether its list accepts a text in the parameter `q`."""
    count_url: str = ""
    """URL of a fragment with a number that the menu shows beside it."""


def in_order(entries: Iterable[NavigationEntry]) -> tuple[NavigationEntry, ...]:
    """In the order of the menu."""
    areas = list(Area)
    return tuple(sorted(entries, key=lambda entry: (areas.index(entry.area), entry.position)))


navigation_of = AppState[tuple[NavigationEntry, ...]]("navigation", tuple)
"""All entries of the application, in order; set by the application."""


def entries_for(request: Request) -> list[NavigationEntry]:
    """The entries for the current caller."""
    caller, features = getattr(request.state, "caller", None), features_of(request)
    is_admin = caller is not None and caller.is_admin
    return [entry for entry in navigation_of(request) if entry.condition(features, is_admin)]


def menu_for(request: Request) -> list[tuple[Area, list[NavigationEntry]]]:
    """The menu for the current caller, by areas; empty areas are omitted."""
    shown = [entry for entry in entries_for(request) if entry.name]
    return [(area, list(entries)) for area, entries in groupby(shown, key=lambda entry: entry.area)]
