"""The ends of a node's socket that take long, or a database that does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.accounts.credentials import SecretHasher
from app.kit.clock import now
from app.kit.redis.change_hub import ChangeHub
from app.kit.sql import Database
from app.nodes.link_api import ROUTES
from app.nodes.model import Side
from app.nodes.service import Nodes
from app.nodes.wire import Heartbeat, dump_frame, report_frame
from tests.harness.ports import free_port
from tests.harness.web import Server

HELLO = dump_frame(report_frame(Heartbeat("1", "", order_seqs={})))


@dataclass(frozen=True)
class Link:
    nodes: Nodes
    url: str
    token: str

    @contextmanager
    def dial(self, headers: Any = None) -> Iterator[ClientConnection]:
        bearer = {"Authorization": f"Bearer {self.token}"}
        with connect(self.url, additional_headers=headers or bearer, proxy=None) as socket:
            yield socket

    def lose_database(self) -> None:
        self.nodes.database = Database("sqlite:////proc/none/db")


@pytest.fixture
def link(database: Database) -> Iterator[Link]:
    """A web that has nothing but the socket, in a thread."""
    nodes = Nodes(database, SecretHasher("a key"), lambda _: None)
    _, token = nodes.register("edge0", Side.EDGE, now=now())
    app = Starlette(routes=ROUTES)
    app.state.container = SimpleNamespace(nodes=nodes)
    app.state.hub = ChangeHub("redis://nowhere")
    port = free_port()
    server = Server(uvicorn.Config(app, port=port, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Link(nodes, f"ws://127.0.0.1:{port}/neptune/link/edge0/socket", token)
    server.should_exit = True
    thread.join(120)


def code_of_the_end(socket: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as ended:
        socket.recv(timeout=120)
    assert ended.value.rcvd is not None
    return ended.value.rcvd.code


def test_a_node_that_falls_silent_is_let_go(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.nodes.node_socket.OFFLINE_AFTER_S", 0.2)
    with link.dial() as socket:
        with suppress(ConnectionClosed):  # on a slow machine that time is over before it says anything
            socket.send(HELLO)
        assert code_of_the_end(socket) == 4408


def test_a_node_is_told_to_try_again_while_the_database_does_not_answer(link: Link) -> None:
    with link.dial() as socket:
        link.lose_database()
        socket.send(HELLO)
        assert code_of_the_end(socket) == 1013


def test_a_node_with_nothing_to_say_is_told_so_too(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.nodes.access.REPEAT_S", 0.1)
    with link.dial() as socket:
        link.lose_database()
        assert code_of_the_end(socket) == 1013


def test_a_token_is_not_called_wrong_while_the_database_does_not_answer(link: Link) -> None:
    link.lose_database()
    with pytest.raises(InvalidStatus) as refused, link.dial():
        pass
    assert refused.value.response.status_code == 503


def test_a_server_that_ends_says_so(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.nodes.node_socket.is_ending", lambda: True)
    with link.dial() as socket:
        assert code_of_the_end(socket) == 1012


def test_two_tokens_are_as_good_as_none(link: Link) -> None:
    twice = [("Authorization", f"Bearer {link.token}")] * 2
    with pytest.raises(InvalidStatus) as refused, link.dial(twice):
        pass
    assert refused.value.response.status_code == 403
