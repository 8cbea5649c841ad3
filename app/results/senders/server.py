"""What senders to servers share, and the server of a sink's address after its name was resolved and checked."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from app.kit.network.addresses import Network
from app.kit.network.checked_post import NotSent
from app.kit.network.public_hosts import AddressRefused, resolve
from app.results.model.sink import PORTS, Sink


@dataclass(frozen=True)
class Server:
    """A checked server.

    Args:
        parts: of the sink's address.
        address: the IP address to connect to.
    """

    parts: SplitResult
    address: str
    port: int

    @property
    def user(self) -> str | None:
        return None if self.parts.username is None else unquote(self.parts.username)

    @property
    def password(self) -> str | None:
        return None if self.parts.password is None else unquote(self.parts.password)


@dataclass(frozen=True)
class NetworkSender:
    """Sends to servers.

    Args:
        networks: private networks that may be sent to; they hold for each server that the first one names, too.
        try_s: seconds that one try may take.
    """

    networks: Sequence[Network]
    _: KW_ONLY
    try_s: float


def server_of(sink: Sink, networks: Sequence[Network]) -> Server:
    """Returns the server of a sink.

    Args:
        networks: private networks that may be sent to.

    Raises:
        NotSent: It must not be sent to, or its name has no address.
    """
    parts = urlsplit(sink.address)
    port = parts.port or PORTS[parts.scheme]
    try:
        return Server(parts, str(resolve(str(parts.hostname), port, networks)), port)
    except AddressRefused as error:
        raise NotSent(error.message) from error
    except socket.gaierror as error:
        raise NotSent(f"its host cannot be resolved: {error.strerror}") from error
