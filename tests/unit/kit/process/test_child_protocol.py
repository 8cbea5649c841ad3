"""Messages between the host of stages and its children, and what is none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from app.kit.process.child_protocol import LENGTH, receive, receive_async, send

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def read_by_both(text: bytes) -> Iterator[Any]:
    """How each of the two readers takes a message that has this header."""
    for read in (receive, lambda end: asyncio.run(receive_async(end))):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(LENGTH.pack(len(text)) + text)
            theirs.shutdown(socket.SHUT_WR)
            ours.setblocking(read is receive)
            try:
                yield read(ours)
            except ValueError as error:
                yield str(error)


def test_a_message_arrives_as_it_was_sent(ends: Ends) -> None:
    ours, theirs = ends
    send(theirs, {"do": "run"}, [b"abc", b""])
    header, blobs = receive(ours)
    assert header == {"do": "run"}
    assert [bytes(blob) for blob in blobs] == [b"abc", b""]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "line 1, column 1"),
        (b"[]", "not a JSON object"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b"{}", "without lengths"),
        (b'{"blobs": {"a": 1}}', "without lengths"),
        (b'{"blobs": [-1]}', "without lengths"),
        (b'{"blobs": ["1"]}', "without lengths"),
        (b'{"blobs": [536870912, 536870913]}', "a message of 1073741825 bytes"),
    ],
    ids=["text", "array", "deep", "none", "object", "negative", "words", "large"],
)
def test_what_is_no_message_is_refused(text: bytes, reason: str) -> None:
    assert [reason in answer for answer in read_by_both(text)] == [True, True]


def test_a_header_without_end_is_refused(ends: Ends) -> None:
    ours, theirs = ends
    theirs.sendall(LENGTH.pack((64 << 20) + 1))
    with pytest.raises(ValueError, match="a header of 67108865 bytes"):
        receive(ours)
