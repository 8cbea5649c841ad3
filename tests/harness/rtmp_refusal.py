"""A server of RTMP that lets nobody in, as those do that demand a user and a password."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

HANDSHAKE_BYTES = 1536


@contextmanager
def rtmp_refusal(reason: str) -> Iterator[str]:
    """The URL of one that answers each request to connect with this reason; empty: it ends the connection without."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(_serve, listener, reason)
        try:
            yield f"rtmp://127.0.0.1:{listener.getsockname()[1]}/live/camera"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, reason: str) -> None:
    with suppress(OSError):  # the listener has ended
        while True:
            with closing(listener.accept()[0]) as peer, suppress(ConnectionError):
                _refuse(peer, reason)


def _refuse(peer: socket.socket, reason: str) -> None:
    peer.recv(1 + HANDSHAKE_BYTES, socket.MSG_WAITALL)
    peer.sendall(b"\x03" + bytes(2 * HANDSHAKE_BYTES))
    peer.recv(HANDSHAKE_BYTES, socket.MSG_WAITALL)
    peer.recv(4096)  # the request
    if not reason:
        return
    answer = {"level": "error", "code": "NetConnection.Connect.Rejected", "description": reason}
    fields = b"".join(_name(key) + b"\x02" + _name(value) for key, value in answer.items())
    body = b"\x02" + _name("_error") + b"\x00" + struct.pack("!d", 1) + b"\x05\x03" + fields + b"\x00\x00\x09"
    chunks = [body[at : at + 128] for at in range(0, len(body), 128)]
    peer.sendall(b"\x03\0\0\0" + len(body).to_bytes(3) + b"\x14" + bytes(4) + b"\xc3".join(chunks))
    while peer.recv(4096):
        pass


def _name(text: str) -> bytes:
    return struct.pack("!H", len(text)) + text.encode()
