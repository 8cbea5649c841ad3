"""Downloads that break off."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from modelmill_client import Unreachable
from modelmill_client._sync.transport import Transport

from tests.harness.scripted_server import ScriptedServer

CONTENT = b"nef of the test"


class BrokenStream(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield CONTENT[:5]
        raise httpx.ReadError("the line broke")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("modelmill_client._sync.transport.time.sleep", taken.append)
    return taken


def save(server: ScriptedServer, folder: Path, counted: list[int]) -> Path:
    transport = Transport("http://mill", transport=httpx.MockTransport(server))
    return transport.save("/f", folder / "out.nef", sha256(CONTENT).hexdigest(), counted.append)


def test_what_breaks_off_or_is_damaged_is_fetched_again_and_counted_once(tmp_path: Path, pauses: list[float]) -> None:
    broken, damaged = httpx.Response(200, stream=BrokenStream()), httpx.Response(200, content=b"damaged")
    counted: list[int] = []
    saved = save(ScriptedServer(broken, damaged, httpx.Response(200, content=CONTENT)), tmp_path, counted)
    assert saved.read_bytes() == CONTENT and sum(counted) == len(CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["out.nef"] and len(pauses) == 2


def test_a_service_that_stays_away_is_given_up_and_leaves_nothing(tmp_path: Path, pauses: list[float]) -> None:
    server = ScriptedServer(httpx.ConnectError("no service"))
    with pytest.raises(Unreachable):
        save(server, tmp_path, [])
    assert (len(server.requests), len(pauses), [*tmp_path.iterdir()]) == (4, 3, [])
