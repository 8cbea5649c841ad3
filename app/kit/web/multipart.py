"""Multipart bodies, read incrementally or collected in memory. Pure: forms.py reads those of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from app.kit.errors import BadRequest, ModelmillError, TooLarge

MAX_PARTS = 20_000
MOST_NAME = 150
"""The characters of an uploaded name that are kept."""
Piece: TypeAlias = MultipartSegment | bytes
"""The start of a part, or bytes of the current part."""


class NotMultipart(ModelmillError, status=415, code="NOT_MULTIPART"): ...


def boundary_of(content_type: str) -> str | None:
    """Returns the boundary between the parts, "" if it is missing; None: this is not a multipart form."""
    kind, options = parse_options_header(content_type)
    return options.get("boundary", "") if kind == "multipart/form-data" else None


class MultipartReader:
    """Receives a body piece by piece; keeps nothing of it."""

    def __init__(
        self, boundary: str | None, *, hint: str = "Send it again, as curl -F does.", max_parts: int = MAX_PARTS
    ) -> None:
        """Reads the boundary of a body.

        Args:
            hint: how such a body is sent here.

        Raises:
            NotMultipart: There is no boundary.
        """
        if not boundary:
            raise NotMultipart("An upload is multipart/form-data.", hint=hint)
        self._hint = hint
        self._parser = PushMultipartParser(boundary, max_segment_count=max_parts)

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Parses the next bytes of the body; no bytes mean the end.

        Raises:
            BadRequest: The body is damaged, or ended early.
        """
        try:
            for event in self._parser.parse(data):
                if event is not None:
                    yield event if isinstance(event, MultipartSegment) else bytes(event)
        except MultipartError as error:
            raise BadRequest(f"This is no valid multipart body, or it ended early: {error}.", hint=self._hint) from None


@dataclass(frozen=True)
class Part:
    """A part of a body that was read to its end."""

    data: bytes
    content_type: str


class PartCollector:
    """Collects the parts of a body as they arrive, within their limits."""

    def __init__(self, most_bytes: Mapping[str, int], *, hint: str) -> None:
        self._most_bytes = most_bytes
        self._hint = hint
        self._parts: dict[str, tuple[bytearray, str]] = {}
        self._name = ""

    @property
    def parts(self) -> dict[str, Part]:
        return {name: Part(bytes(data), content_type) for name, (data, content_type) in self._parts.items()}

    def take(self, piece: Piece) -> None:
        """Adds a piece to the part that it belongs to.

        Raises:
            BadRequest: The part is not expected, or there twice.
            TooLarge: The part exceeds its limit.
        """
        if isinstance(piece, MultipartSegment):
            self._name = piece.name
            if self._name not in self._most_bytes or self._name in self._parts:
                raise BadRequest(f"A part {self._name[:80]!r} is not expected, or there twice.", hint=self._hint)
            self._parts[self._name] = bytearray(), piece.content_type or ""
            return
        data = self._parts[self._name][0]
        data += piece
        if len(data) > self._most_bytes[self._name]:
            raise TooLarge(f"The part {self._name} may have {self._most_bytes[self._name]} bytes.")


def parts_in(content_type: str, body: bytes, most_bytes: Mapping[str, int], *, hint: str) -> dict[str, Part]:
    """Returns the parts of a body in memory.

    Args:
        most_bytes: the allowed parts by name, and how large each may be.
        hint: how such a body is sent here.

    Raises:
        BadRequest: The body is no such form, is damaged, or has a part that is not expected.
        TooLarge: A part exceeds its limit.
    """
    boundary = boundary_of(content_type)
    if not boundary:
        raise BadRequest("This is to be multipart/form-data.", hint=hint)
    reader, collector = MultipartReader(boundary, hint=hint), PartCollector(most_bytes, hint=hint)
    for data in (body, b""):
        for piece in reader.feed(data):
            collector.take(piece)
    return collector.parts


def plain_name(name: str | None) -> str:
    """Returns the end of an uploaded name, with the file extension, without control characters and folders."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    plain = "".join(c for c in last if c.isprintable())[-MOST_NAME:]
    return plain if plain.strip(".") else "unnamed"
