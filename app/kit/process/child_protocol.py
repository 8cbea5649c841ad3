"""The protocol between a process and its children over a socket pair: a length, a JSON header, raw bytes.

Both ends are ours, but models and stages of others run in a child: no message carries code, and what is no message
ends the connection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_object

LENGTH = struct.Struct("!I")
MOST_HEADER, MOST_BLOBS = 64 << 20, 1 << 30
"""Bytes of a message."""
BLOBS = "blobs"
"""In the header: lengths of what follows it."""
Message = tuple[JsonObject, list[bytes | memoryview]]


def begin_of(header: Mapping[str, Any], blobs: Sequence[bytes | memoryview], *, allow_nan: bool = True) -> bytes:
    text = json.dumps({**header, BLOBS: [len(blob) for blob in blobs]}, allow_nan=allow_nan).encode()
    return LENGTH.pack(len(text)) + text


def send(end: socket.socket, header: Mapping[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> None:
    """Sends a message. If it cannot be JSON, nothing is sent.

    Raises:
        OSError: The other end has gone.
        TypeError: The header has a value that JSON does not have.
        ValueError: The header has an infinite number or NaN.
    """
    end.sendall(begin_of(header, blobs, allow_nan=False))
    for blob in blobs:
        end.sendall(blob)


def receive(end: socket.socket, most: int = MOST_BLOBS) -> Message:
    """Receives a message.

    Args:
        most: bytes of header and blobs that are accepted.

    Raises:
        EOFError: The other end has gone.
        ValueError: It is no message, or too long.
    """
    length = _header_length(_read(end, LENGTH.size))
    if length > most:
        raise ValueError(f"a header of {length} bytes")
    header, lengths = _header(_read(end, length))
    if sum(lengths) > most:
        raise ValueError(f"a message of {sum(lengths)} bytes")
    return header, [memoryview(_read(end, length)) for length in lengths]


async def send_async(end: socket.socket, header: Mapping[str, Any], blobs: Sequence[bytes | memoryview]) -> None:
    """As `send`, but an infinite number or NaN is sent as it is.

    Raises:
        OSError: The other end has gone.
    """
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(end, begin_of(header, blobs))
    for blob in blobs:
        await loop.sock_sendall(end, blob)


async def receive_async(end: socket.socket) -> Message:
    """Returns the next message.

    Raises:
        EOFError: The other end has gone.
        ValueError: This is no message.
    """
    header, lengths = _header(await _read_async(end, _header_length(await _read_async(end, LENGTH.size))))
    return header, [memoryview(await _read_async(end, length)) for length in lengths]


def _header_length(data: bytearray) -> int:
    length: int = LENGTH.unpack(data)[0]
    if length > MOST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    return length


def _header(data: bytearray) -> tuple[JsonObject, list[int]]:
    header = read_object(data)
    lengths = header.pop(BLOBS, None)
    if not isinstance(lengths, list) or not all(isinstance(length, int) and length >= 0 for length in lengths):
        raise ValueError("a header without lengths")
    if sum(lengths) > MOST_BLOBS:
        raise ValueError(f"a message of {sum(lengths)} bytes")
    return header, lengths


def _read(end: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = end.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data


async def _read_async(end: socket.socket, length: int) -> bytearray:
    loop, data = asyncio.get_running_loop(), bytearray(length)
    view = memoryview(data)
    while view:
        count = await loop.sock_recv_into(end, view)
        if not count:
            raise EOFError
        view = view[count:]
    return data
