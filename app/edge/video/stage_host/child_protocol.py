"""The protocol between the host and its children over a socket pair: a length, a JSON header, raw bytes.

Both ends are ours; even so, no message can carry code.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

LENGTH = struct.Struct("!I")
MOST_HEADER = 64 << 20
BLOBS = "blobs"
"""In the header: lengths of what follows it."""
Message = tuple[dict[str, Any], list[bytes | memoryview]]


def begin_of(header: dict[str, Any], blobs: Sequence[bytes | memoryview], *, allow_nan: bool = True) -> bytes:
    text = json.dumps({**header, BLOBS: [len(blob) for blob in blobs]}, allow_nan=allow_nan).encode()
    return LENGTH.pack(len(text)) + text


def send(end: socket.socket, header: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> None:
    """Raises OSError when the other end has gone, TypeError and ValueError for no JSON: then nothing is sent."""
    end.sendall(begin_of(header, blobs, allow_nan=False))
    for blob in blobs:
        end.sendall(blob)


def receive(end: socket.socket) -> Message:
    """Raises EOFError when the other end has gone."""
    header = json.loads(_read(end, LENGTH.unpack(_read(end, LENGTH.size))[0]))
    return header, [memoryview(_read(end, length)) for length in header.pop(BLOBS)]


async def send_async(end: socket.socket, header: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> None:
    """Raises OSError when the other end has gone."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(end, begin_of(header, blobs))
    for blob in blobs:
        await loop.sock_sendall(end, blob)


async def receive_async(end: socket.socket) -> Message:
    """Raises EOFError when the other end has gone, ValueError for what is no message."""
    length = LENGTH.unpack(await _read_async(end, LENGTH.size))[0]
    if length > MOST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(await _read_async(end, length))
    return header, [memoryview(await _read_async(end, each)) for each in header.pop(BLOBS)]


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
