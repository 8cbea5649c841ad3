"""Makes a server of this machine's loopback address reachable from the bridge."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

CHUNK_BYTES = 1 << 16


class Forwarding:
    """(address, port) → (127.0.0.1, port), one thread per direction of a connection."""

    def __init__(self, address: str, port: int) -> None:
        self._port = port
        self._listener = socket.create_server((address, port))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Forwarding:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the end
            while True:
                theirs, _ = self._listener.accept()
                try:
                    ours = socket.create_connection(("127.0.0.1", self._port))
                except OSError:
                    theirs.close()
                    continue
                threading.Thread(target=_carry, args=(theirs, ours), daemon=True).start()


def _carry(theirs: socket.socket, ours: socket.socket) -> None:
    """Both directions, each in a thread, until both have ended."""
    with theirs, ours:
        for end in (theirs, ours):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(ours, theirs), daemon=True)
        back.start()
        _pump(theirs, ours)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends; then the target is told."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
