"""A network camera: MJPEG by HTTP, whose plug can be pulled."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from app.inference.picture_codec import encode
from tests.harness.http_server import served
from tests.harness.models.vision import plain

SIZE = (64, 48)
PICTURE_EVERY_S = 0.05


class Camera:
    """url: of its stream. Each connection gets pictures until the plug is pulled, or `count` of them."""

    def __init__(self, count: int | None = None) -> None:
        self.url = ""
        self._count = count
        self._unplugged = threading.Event()

    def unplug(self) -> None:
        self._unplugged.set()

    def plug_in(self) -> None:
        self._unplugged.clear()

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> None:
        if self._unplugged.is_set():
            request.send_error(503)
            return
        request.send_response(200)
        request.send_header("content-type", "multipart/x-mixed-replace; boundary=frame")
        request.end_headers()
        sent = 0
        while not self._unplugged.is_set() and (self._count is None or sent < self._count):
            data = encode(plain(8 * (sent % 30), 0, 0, *SIZE))[0]
            head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
            try:
                request.wfile.write(head.encode() + data + b"\r\n")
            except OSError:  # its reader has gone
                return
            sent += 1
            if self._count is None:
                self._unplugged.wait(PICTURE_EVERY_S)


@contextmanager
def camera(count: int | None = None, *, context: ssl.SSLContext | None = None) -> Iterator[Camera]:
    """context: for HTTPS."""
    made = Camera(count)
    with served(made.answer, context=context) as url:
        made.url = f"{url}/video"
        try:
            yield made
        finally:
            made.unplug()
