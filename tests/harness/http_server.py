"""An HTTP server that answers as a test tells it."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[BaseHTTPRequestHandler, bytes], None]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Writes a traceback, but not of a client that has gone, as clients of tests do."""
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError | ssl.SSLError):
            super().handle_error(request, client_address)


@contextmanager
def served(
    answering: Answering, *, protocol: str = "HTTP/1.0", port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Its URL. port: 0 for any that is free. answering gets each request, with its body. context: for HTTPS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            answering(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with _Server(("127.0.0.1", port), Handler) as running:
        if context is not None:
            running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if context else ''}://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def respond(
    handler: BaseHTTPRequestHandler,
    body: bytes = b"",
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
) -> None:
    """A whole answer, with its length."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
