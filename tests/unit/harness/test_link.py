"""The slow line of the benchmarks: when what is sent arrives, and that nothing else happens to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.harness.link import CHUNK_BYTES, RETRANSMISSION_S, Line, Link, Pace
from tests.harness.until import PATIENCE_S

FAST = Line(rtt_s=0.0, bits_per_s=0.0)


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_send_back, args=(connection,), daemon=True).start()


def _send_back(connection: socket.socket) -> None:
    with closing(connection):
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except ConnectionError:
            return


def dial(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=PATIENCE_S)


def read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = connection.recv(size - len(received))
        assert data, "it ended too soon"
        received += data
    return received


def test_a_lone_byte_takes_half_the_round_trip() -> None:
    assert Pace(Line(rtt_s=0.04, bits_per_s=0), 0).arrival(1, 10.0) == pytest.approx(10.02)


def test_bytes_take_their_time_at_the_bandwidth() -> None:
    assert Pace(Line(rtt_s=0.04, bits_per_s=5e6), 0).arrival(25_000, 10.0) == pytest.approx(10.06)


def test_what_is_sent_at_once_waits_for_what_is_under_way() -> None:
    pace = Pace(Line(rtt_s=0.0, bits_per_s=8e6), 0)
    assert [pace.arrival(1_000_000, 0.0), pace.arrival(1_000_000, 0.0)] == pytest.approx([1.0, 2.0])


def test_a_line_that_was_idle_owes_nothing() -> None:
    pace = Pace(Line(rtt_s=0.0, bits_per_s=8e6), 0)
    pace.arrival(1_000_000, 0.0)
    assert pace.arrival(1_000_000, 5.0) == pytest.approx(6.0)


def test_the_same_seed_loses_the_same_segments_and_another_one_others() -> None:
    def arrivals(seed: int) -> list[float]:
        pace = Pace(Line(rtt_s=0.0, bits_per_s=0, loss=0.3, seed=seed), 0)
        return [pace.arrival(1000, 0.0) for _ in range(50)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


def test_a_lost_segment_costs_a_retransmission() -> None:
    assert Pace(Line(rtt_s=0.0, bits_per_s=0, loss=1.0), 0).arrival(1, 0.0) == pytest.approx(RETRANSMISSION_S)


def test_what_goes_through_arrives_as_it_was_and_is_counted(echo: tuple[str, int]) -> None:
    sent = bytes(range(256)) * 2000
    with Link(echo, FAST) as link, dial(link) as connection:
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        assert read(connection, len(sent)) == sent
        assert (link.bytes_up, link.bytes_down) == (len(sent), len(sent))


def test_the_end_of_one_side_reaches_the_other(echo: tuple[str, int]) -> None:
    with Link(echo, FAST) as link, dial(link) as connection:
        connection.sendall(b"last")
        connection.shutdown(socket.SHUT_WR)
        assert read(connection, 4) == b"last"
        assert connection.recv(1) == b""


def test_an_answer_takes_no_less_than_the_round_trip(echo: tuple[str, int]) -> None:
    with Link(echo, Line(rtt_s=0.1, bits_per_s=0)) as link, dial(link) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        read(connection, 1)
        assert time.monotonic() - began >= 0.1


def test_all_connections_share_the_bandwidth(echo: tuple[str, int]) -> None:
    with Link(echo, Line(rtt_s=0.0, bits_per_s=8 * CHUNK_BYTES * 10)) as link:
        connections = [dial(link), dial(link)]
        began = time.monotonic()
        for connection in connections:
            connection.sendall(bytes(CHUNK_BYTES))
        for connection in connections:
            with connection:
                read(connection, CHUNK_BYTES)
        assert time.monotonic() - began >= 0.2


def test_a_stalled_line_carries_nothing_and_then_all(echo: tuple[str, int]) -> None:
    with Link(echo, FAST) as link, dial(link) as connection:
        link.stall(is_stalled=True)
        connection.sendall(b"later")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE_S)
        link.stall(is_stalled=False)
        assert read(connection, 5) == b"later"


def test_a_target_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = server.getsockname()
    with Link(nobody, FAST) as link, dial(link) as connection:
        assert connection.recv(1) == b""


def test_it_can_be_closed_while_somebody_is_connected(echo: tuple[str, int]) -> None:
    with Link(echo, FAST) as link:
        connection = dial(link)
        connection.sendall(b"x")
        read(connection, 1)
    with connection:
        assert connection.recv(1) == b""
