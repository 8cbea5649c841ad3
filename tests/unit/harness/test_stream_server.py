"""What a server of the tests leaves open when it ends."""

from __future__ import annotations

import gc
import socket

import pytest

from tests.harness.kafka import KafkaGate
from tests.harness.link import Line, Link
from tests.harness.ports import free_port
from tests.harness.stream_server import StreamServer
from tests.harness.tcp_proxy import TcpProxy

ROUNDS = 10
CLIENTS = 30


@pytest.mark.parametrize("kind", ["gate", "link", "proxy"])
@pytest.mark.filterwarnings("error")
def test_a_client_that_connects_while_the_server_ends_leaves_no_socket_open(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=ROUNDS * CLIENTS) as target:
        for _ in range(ROUNDS):
            server = make_server(kind, target.getsockname()[1])
            with server:
                clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CLIENTS)]
            for client in clients:
                client.close()
    gc.collect()


def make_server(kind: str, target: int) -> StreamServer:
    if kind == "gate":
        return KafkaGate(free_port(), target)
    return TcpProxy(target) if kind == "proxy" else Link(("127.0.0.1", target), Line())
