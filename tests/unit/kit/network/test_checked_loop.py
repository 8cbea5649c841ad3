"""Connections of a loop that checks addresses."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from ipaddress import ip_network

from app.kit.network.checked_loop import CheckedLoop


class Silent(asyncio.Protocol):
    """Does nothing with what it receives."""


def test_a_connection_that_is_still_open_ends_with_its_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        factory = partial(CheckedLoop, (ip_network("127.0.0.0/8"),))
        with asyncio.Runner(loop_factory=factory) as runner:
            loop, port = runner.get_loop(), listener.getsockname()[1]
            transport, _ = runner.run(loop.create_connection(Silent, "127.0.0.1", port))
            connection = transport.get_extra_info("socket")
            assert connection.fileno() >= 0
        assert connection.fileno() == -1
