"""Timeouts of the hot path's connections, by the kernel's clock on plain sockets and by Python's on encrypted ones."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from app.kit.redis.connections import RedisConnection
from app.kit.signatures.certificates import CertificateAuthority, new_request
from tests.harness.until import PATIENCE_S
from tests.harness.valkey import TRY_S, Valkey, set_patience

PING = ("PING",)


def waiting(seconds: float) -> tuple[object, ...]:
    return ("BLPOP", "nothing", seconds)


@pytest.fixture
def line(valkey: Valkey) -> Iterator[RedisConnection]:
    made = RedisConnection(redis.Redis.from_url(valkey.url(1), socket_timeout=PATIENCE_S))
    made.ask([PING])
    set_patience(made, TRY_S)
    yield made
    made.close()


def test_a_late_reply_is_a_timeout_and_the_next_one_comes_on_a_new_connection(line: RedisConnection) -> None:
    with pytest.raises(redis.TimeoutError):
        line.ask([waiting(60)])
    assert not line.is_open
    set_patience(line, PATIENCE_S)
    assert line.ask([PING]) == [b"PONG"]


def test_a_reply_that_is_allowed_to_take_longer_is_waited_for(line: RedisConnection) -> None:
    line.allow(PATIENCE_S)
    assert line.ask([waiting(2 * TRY_S)]) == [None]


def test_a_server_that_takes_nothing_ends_a_request_too() -> None:
    with silent_server() as port:
        line = RedisConnection(redis.Redis(port=port, protocol=2, driver_info=None, socket_timeout=TRY_S))
        with pytest.raises(redis.TimeoutError):
            line.send([("SET", "key", b"0" * (16 << 20))])
        assert not line.is_open


def test_a_late_reply_is_a_timeout_on_an_encrypted_connection_too(tmp_path: Path) -> None:
    with silent_server(encrypted(tmp_path)) as port:
        options = {"ssl": True, "ssl_cert_reqs": "none", "protocol": 2, "driver_info": None}
        line = RedisConnection(redis.Redis(port=port, socket_timeout=PATIENCE_S, **options))
        line._open()
        set_patience(line, TRY_S)
        with pytest.raises(redis.TimeoutError):
            line.ask([PING])


@contextmanager
def silent_server(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that accepts one connection, with the handshake of TLS if there is a context, and reads nothing."""
    connections: list[socket.socket] = []

    def accept() -> None:
        connection = server.accept()[0]
        connections.append(context.wrap_socket(connection, server_side=True) if context else connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        thread.join()
        connections[0].close()


def encrypted(folder: Path) -> ssl.SSLContext:
    request, now = new_request(), datetime.now(UTC).replace(microsecond=0)
    authority, until = CertificateAuthority("test"), now + timedelta(days=1)
    (folder / "certificate.pem").write_text(authority.issue(request.request, "redis", serial=1, now=now, until=until))
    (folder / "key.pem").write_text(request.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
