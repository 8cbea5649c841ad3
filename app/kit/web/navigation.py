"""The menu of every page, and the pages that one can jump to: what the capabilities declare, in one order."""

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
"""Is an entry for this reader? Of the installation's features, and whether the reader is an administrator."""


class Area(StrEnum):
    """The headings of the menu in their order. The values are texts of the catalogue."""

    CONVERSION = "Conversion"
    TRAINING = "Training"
    EDGE = "Edge"
    WORKSPACE = "Workspace"


def everybody(_features: frozenset[str], _is_admin: bool) -> bool:
    return True


def administrators(_features: frozenset[str], is_admin: bool) -> bool:
    return is_admin


def where_there_is(feature: str) -> Condition:
    """For everybody of an installation that has it."""
    return lambda features, _is_admin: feature in features


@dataclass(frozen=True)
class NavigationEntry:
    area: Area
    position: int
    """Its place among the entries of its area, whoever declares them. Two may not have the same."""
    label: str
    """In English; a text of the catalogue."""
    url: str
    name: str = ""
    """The `area` of the pages below it, by which the menu marks where the reader is. Without one it stands not in the
    menu, but can be jumped to."""
    condition: Condition = everybody
    is_searched: bool = False
    """Does its list take a text in the parameter `q`?"""
    count_url: str = ""
    """Of a fragment with a number that the menu shows beside it."""


def in_order(entries: Iterable[NavigationEntry]) -> tuple[NavigationEntry, ...]:
    """As the menu has them."""
    areas = list(Area)
    return tuple(sorted(entries, key=lambda entry: (areas.index(entry.area), entry.position)))


navigation_of = AppState[tuple[NavigationEntry, ...]]("navigation", tuple)
"""All entries of the application, in order: the application puts them there."""


def entries_for(request: Request) -> list[NavigationEntry]:
    """Those for whoever asks."""
    caller, features = getattr(request.state, "caller", None), features_of(request)
    is_admin = caller is not None and caller.is_admin
    return [entry for entry in navigation_of(request) if entry.condition(features, is_admin)]


def menu_for(request: Request) -> list[tuple[Area, list[NavigationEntry]]]:
    """The menu of whoever asks, by areas; an area without entries is left out."""
    shown = [entry for entry in entries_for(request) if entry.name]
    return [(area, list(entries)) for area, entries in groupby(shown, key=lambda entry: entry.area)]
