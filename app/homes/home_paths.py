"""Resolves a user's path: /private/users/<me>/datasets/x, its short form datasets/x, or /private/common/...
(read-only).

Text only; no disk access. Names and the disk are checked below.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.homes.errors import make_refusal
from app.homes.model import COMMON, HomesOptions, home_of


@dataclass(frozen=True)
class HomePath:
    """A place in a user's home, or in the common folder."""

    inner: str
    """The path below the home, or below the common folder."""
    is_common: bool = False

    def logical(self, options: HomesOptions, user: str) -> str:
        """As tasks name it."""
        if not self.is_common:
            return options.logical(user, self.inner)
        return "/".join(part for part in (options.prefix, COMMON, self.inner) if part)

    def below(self, name: str) -> HomePath:
        return HomePath(f"{self.inner}/{name}" if self.inner else name, self.is_common)


def home_path_of(options: HomesOptions, user: str, text: str, *, field: str = "path") -> HomePath:
    """Where a path leads that a user has written.

    Args:
        text: short, from the home on (datasets/…), or whole, with the installation's prefix.
        field: for the error's message.

    Raises:
        PathRefused: A whole path lies neither in the user's home nor in the common folder.
    """
    if not text.startswith("/"):
        return HomePath(text)
    for base, is_common in ((home_of(user), False), (COMMON, True)):
        whole = f"{options.prefix}/{base}"
        if text in (whole, f"{whole}/"):
            return HomePath("", is_common)
        if text.startswith(f"{whole}/"):
            return HomePath(_make_relative(text.removeprefix(f"{whole}/"), field), is_common)
    places = f"{options.prefix}/{home_of(user)}/ or {options.prefix}/{COMMON}/"
    raise make_refusal(field, f"it must lie under {places}", hint="Or write it short, from your home on: datasets/…")


def own_path_of(options: HomesOptions, user: str, text: str, *, field: str = "path") -> HomePath:
    """The same, of what is to be changed. Arguments as of `home_path_of`.

    Raises:
        PathRefused: For the common folder, too.
    """
    location = home_path_of(options, user, text, field=field)
    if location.is_common:
        raise make_refusal(field, "the common folder can only be read", hint="Put it into your own home: datasets/…")
    return location


def _make_relative(inner: str, field: str) -> str:
    """Names take one leading slash, which here would be a second one."""
    if inner.startswith("/"):
        raise make_refusal(field, "it has an empty part: // or a slash at the end")
    return inner
