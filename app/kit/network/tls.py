"""Encrypted links between nodes, on which both sides show a certificate. Files are replaced while links are open.

A node's certificate names the node, not its address: whoever calls a worker says on which node it is to run.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.kit.process.periodic_thread import PeriodicThread

DOMAIN = "nodes.modelmill"
KEY, CERTIFICATE, AUTHORITIES = "key.pem", "certificate.pem", "authorities.pem"
LOOK_S = 2.0
"""How often a process looks whether the files were replaced."""
Marks = tuple[tuple[int, int], ...]


def tls_name(node: str) -> str:
    """The name in the certificate of this node. Names of nodes may have an empty part, those in certificates not."""
    label = node if ".." not in node else hashlib.sha256(node.encode()).hexdigest()[:40]
    return f"{label}.{DOMAIN}"


class _CurrentContext(ssl.SSLContext):
    """Makes each connection with `current`, which is replaced as a whole: no context forgets an authority."""

    current: ssl.SSLContext

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **options)


class Credentials:
    """The key, the certificate and the trusted authorities of this machine, with the revocations that they publish.

    Attributes:
        files: of the three.
        server: for servers whose callers must show a certificate of one of the authorities.
        client: for calls, each with `server_hostname=tls_name(node)`.
    """

    def __init__(self, key: Path, certificate: Path, authorities: Path) -> None:
        """Loads the three files.

        Raises:
            OSError: One of them cannot be read.
            ssl.SSLError: They do not belong together.
        """
        self.files = (key, certificate, authorities)
        self.server = _CurrentContext(ssl.PROTOCOL_TLS_SERVER)
        self.client = _CurrentContext(ssl.PROTOCOL_TLS_CLIENT)
        self._marks: Marks = ()
        self.refresh()

    def to_json(self) -> list[str]:
        """The paths of the files."""
        return [str(path) for path in self.files]

    @staticmethod
    def from_json(paths: Sequence[str]) -> Credentials | None:
        """None: there are none. Raises as the constructor does."""
        return Credentials(*map(Path, paths)) if paths else None

    @staticmethod
    def of(folder: Path) -> Credentials:
        """From the files that an agent keeps. Raises as the constructor does."""
        return Credentials(folder / KEY, folder / CERTIFICATE, folder / AUTHORITIES)

    def refresh(self) -> bool:
        """Uses the files as they are now for new connections, and returns whether they have changed. After an error,
        what was read before stays in use.

        Raises:
            OSError: A file cannot be read.
            ssl.SSLError: The files do not belong together.
        """
        marks = self._read_marks()
        if marks == self._marks:
            return False
        fresh = [_build_context(context.protocol, *self.files) for context in (self.server, self.client)]
        self.server.current, self.client.current = fresh
        self._marks = marks
        return True

    def watch(self) -> PeriodicThread:
        """Starts a thread that refreshes them for as long as the process lives."""
        thread = PeriodicThread("certificates", self.refresh, every_s=LOOK_S)
        thread.start()
        return thread

    def _read_marks(self) -> Marks:
        stats = (path.stat() for path in self.files)
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)


def _build_context(protocol: int, key: Path, certificate: Path, authorities: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # a session that is resumed shows no certificate
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authorities)
    if "X509 CRL" in authorities.read_text():
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context
