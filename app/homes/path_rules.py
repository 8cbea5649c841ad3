"""Which paths a task may name, field by field: first as text, then against the disk, and again when they are used.

`allowed` is the rule, without disk access. `PathRules.check` finds the file itself; its result opens the file under the
same rule, so that nothing swapped in between is read. This restricts paths; what a running job can read depends on the
account it runs under.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.homes.errors import FileMissing, HomeDenied, NotAFile, NotAFolder, disk_errors, make_refusal
from app.homes.model import COMMON, MODELS, PRIVATE_COMMON, HomesOptions, Kind, home_of
from app.homes.names import MAX_PATH_BYTES, check_segment, describe, is_tricky
from app.homes.path_openers import Opener
from app.homes.rooted_directory import RootedDirectory, kind_of


@dataclass(frozen=True)
class FieldRule:
    kinds: frozenset[Kind]
    """The kinds of files that the field may name."""
    own: str | None
    """The folder of the home in which it must be, "" for the whole home; None: only in the common folder."""


FIELDS: Mapping[str, FieldRule] = MappingProxyType(
    {
        "train_file": FieldRule(frozenset({Kind.FILE}), own=""),
        "val_file": FieldRule(frozenset({Kind.FILE}), own=""),
        "resume_from": FieldRule(frozenset({Kind.FOLDER}), own=""),
        "model_path": FieldRule(frozenset({Kind.FILE, Kind.FOLDER}), own=MODELS),
        "reward_model": FieldRule(frozenset({Kind.FILE, Kind.FOLDER}), own=MODELS),
        "code_path": FieldRule(frozenset({Kind.FOLDER}), own=None),
        "program": FieldRule(frozenset({Kind.FILE}), own=None),
        "convert.images": FieldRule(frozenset({Kind.FILE, Kind.FOLDER}), own=""),
    }
)


@dataclass(frozen=True)
class AllowedPath:
    base: str
    """The allowed folder, from the root of the storage."""
    below: str
    """The path from there, never empty."""


@dataclass(frozen=True)
class CheckedPath:
    """A path that was allowed when it was checked."""

    field: str
    text: str
    """As given, which is what a task receives."""
    place: AllowedPath
    kind: Kind
    size_bytes: int
    _rules: PathRules = dataclasses.field(repr=False, compare=False)

    @property
    def here(self) -> Path:
        """Its location on this machine, for display. To read it use open(), which cannot be swapped."""
        return self._rules.options.root / self.place.base / self.place.below

    def open(self) -> int:
        """A descriptor for reading, of a file or a folder; the caller closes it. See `check`."""
        return self._rules.open(self.field, self.text, self.place)


class PathRules:
    """Safe to share between threads.

    Args:
        fields: the rule of each field, by its name.
    """

    def __init__(
        self, options: HomesOptions, *, fields: Mapping[str, FieldRule] = FIELDS, opener: Opener | None = None
    ) -> None:
        self.options = options
        self.fields = fields
        self._opener = opener

    def check(self, user: str, field: str, text: str) -> CheckedPath:
        """Checks a path that a field of a task names.

        Raises:
            PathRefused: It may not be used; the error names the field and why.
            KeyError: The field has no rule.
        """
        rule = self.fields[field]
        place = resolve_allowed(self.options, rule, user, field, text)
        with _convert_refusals(field), disk_errors(text, field=field), self._open_base(place) as base:
            status = base.stat(place.below)
        kind = _expect(rule, field, text, status)
        return CheckedPath(field, text, place, kind, 0 if kind is Kind.FOLDER else status.st_size, self)

    def open(self, field: str, text: str, place: AllowedPath) -> int:
        """Opens an allowed file and returns its descriptor. A device is not opened.

        Args:
            field: in which the path was given.
            text: the path as its user has written it.
            place: as `allowed` returned it.

        Raises:
            PathRefused: It is of another kind now, or leads elsewhere.
        """
        rule = self.fields[field]
        with _convert_refusals(field), disk_errors(text, field=field), self._open_base(place) as base:
            _expect(rule, field, text, base.stat(place.below))  # opening a device may have an effect on it
            fd = base.open(place.below, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                _expect(rule, field, text, os.fstat(fd))
            except BaseException:
                os.close(fd)
                raise
            return fd

    def _open_base(self, place: AllowedPath) -> RootedDirectory:
        return RootedDirectory.at(self.options.root, place.base, self._opener)


def resolve_allowed(options: HomesOptions, rule: FieldRule, user: str, field: str, text: str) -> AllowedPath:
    """Resolves a path, if this field may name it for this user. Does not access the disk.

    Args:
        rule: which folders the field may name.
        field: for the error's message.

    Raises:
        PathRefused: It may not.
    """
    _check_text(field, text)
    prefix, home = options.prefix + "/", home_of(user)
    segments = _split_path(rule, field, text)
    inner = "/".join(segments)
    places = [f"{prefix}{COMMON}/"]
    bases = [COMMON]
    if rule.own is not None:
        bases.append("/".join(part for part in (home, rule.own) if part))
        places.append(f"{prefix}{bases[1]}/")
    for base in bases:
        start = f"{prefix}{base}/".removeprefix("/")
        if inner.startswith(start):
            below = inner.removeprefix(start)
            if base == COMMON and below.split("/")[0] in PRIVATE_COMMON:
                raise make_refusal(field, f"{prefix}{COMMON}/{below.split('/')[0]}/ is the service's own")
            return AllowedPath(base, below)
    where = " or ".join(places)
    raise make_refusal(field, f"it must lie under {where}", hint="The page Data shows the paths of your own home.")


@contextmanager
def _convert_refusals(field: str) -> Iterator[None]:
    """Reports an error of the file as an error of the field that names it."""
    try:
        yield
    except (FileMissing, NotAFile, NotAFolder, HomeDenied) as error:
        raise make_refusal(field, error.message, hint=error.hint) from error


def _check_text(field: str, text: str) -> None:
    if not text:
        raise make_refusal(field, "it is empty")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise make_refusal(field, f"it is longer than {MAX_PATH_BYTES} bytes")
    tricky = next((c for c in text if is_tricky(c)), None)
    if tricky is not None:
        hint = "Rename the file: such characters cannot be seen, or pass for / or . to whoever reads the task."
        raise make_refusal(field, f"it has the character {describe(tricky)}", hint=hint)
    if text != text.strip():
        raise make_refusal(field, "it begins or ends with a space")
    if not text.startswith("/"):
        raise make_refusal(field, "it must be a whole path, from / on")


def _split_path(rule: FieldRule, field: str, text: str) -> list[str]:
    """The names after the first slash. One slash at the end is allowed where a folder may be named."""
    inner = text[1:]
    if Kind.FOLDER in rule.kinds:
        inner = inner.removesuffix("/")
    segments = inner.split("/")
    for segment in segments:
        check_segment(segment.encode(), field)
    return segments


def _expect(rule: FieldRule, field: str, text: str, status: os.stat_result) -> Kind:
    kind = kind_of(status.st_mode)
    if kind not in rule.kinds:
        expected = " or a ".join(sorted(rule.kinds))
        raise make_refusal(field, f"{text} is no {expected}" + (f" but a {kind}" if kind is not Kind.OTHER else ""))
    return kind
