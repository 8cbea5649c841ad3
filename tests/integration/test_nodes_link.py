"""How a node and the web talk: over a socket, by polling, and with nobody else's token."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.accounts.model import Role
from app.bootstrap.container import Container, assemble
from app.kit.clock import now, to_text
from app.kit.objects.blobs import blob_key
from app.main import create_app
from app.nodes.errors import NodeNotFound
from app.nodes.model import NodeReport, Operation, Order, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.service import Nodes
from app.nodes.wire import MAX_UP_BYTES, Heartbeat, acknowledge_frame, dump_frame, parse_order, report_frame
from app.settings import Settings
from tests.harness import command_line
from tests.harness.api import code_of
from tests.harness.deployment import Deployment
from tests.harness.ports import free_port
from tests.harness.until import until
from tests.harness.users import Person
from tests.harness.valkey import Valkey
from tests.harness.web import served

KEY = WorkKey("jointinferenceservices", "11111111-2222-3333-4444-555555555555", "edge")
ANSWER_S = 60
PID = '<dd class="num">4242</dd>'
REPEAT_S = "app.nodes.access.REPEAT_S"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Starlette:
    """One of its own, where accounts are demanded: its nodes are nobody else's."""
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("nodes"),
        redis_url=shared_valkey.url(0),
        accounts=True,
        port=free_port(),
        secret_key=SecretStr("a secret"),
    )
    return create_app(settings)


@pytest.fixture(scope="module")
def url(web: Starlette) -> Iterator[str]:
    with served(web, web.state.container.settings.port) as address:
        yield address


@pytest.fixture(scope="module")
def container(web: Starlette, url: str) -> Iterator[Container]:
    """As another process of the same installation has it: the one that gives orders."""
    made = assemble(web.state.container.settings)
    yield made
    made.close()


@pytest.fixture
def nodes(container: Container) -> Nodes:
    return container.nodes


@pytest.fixture(scope="module")
def root(container: Container, url: str) -> Person:
    return made_user(container, url, "root-admin", Role.ADMIN)


@pytest.fixture(scope="module")
def bob(container: Container, url: str) -> Person:
    return made_user(container, url, "bob", Role.USER)


def made_user(container: Container, url: str, name: str, role: Role) -> Person:
    container.accounts.users.create(name, role, by="test")
    return Person(name, container.accounts.tokens.issue(name, by="test")[1], url)


class Machine:
    """A node as its agent sees the web."""

    def __init__(self, url: str, name: str, token: str) -> None:
        self.url, self.name, self.token = url, name, token
        self.http = httpx.Client(
            base_url=f"{url}/neptune/link/{name}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )

    @contextmanager
    def dial(self, **changes: Any) -> Iterator[ClientConnection]:
        """Raises InvalidStatus."""
        options = {"additional_headers": {"Authorization": f"Bearer {self.token}"}, "proxy": None, **changes}
        with connect(f"ws{self.url.removeprefix('http')}/neptune/link/{self.name}/socket", **options) as socket:
            yield socket

    @contextmanager
    def connected(self, known: Mapping[str, int] | None = None, *workers: WorkerReport) -> Iterator[ClientConnection]:
        with self.dial() as socket:
            socket.send(self.sign(known or {}, *workers))
            yield socket

    @staticmethod
    def sign(known: Mapping[str, int] | None = None, *workers: WorkerReport) -> str:
        return dump_frame(report_frame(Heartbeat("1.0", "10.0.0.7", NodeReport(cpu=0.25, workers=workers), known)))

    def orders(self, wait: float = 0) -> list[Order]:
        answer = self.http.get("/messages", params={"wait": wait})
        assert answer.status_code == 200, answer.text
        return [parse_order(frame, self.name) for frame in answer.json()["messages"]]

    def received(self, socket: ClientConnection) -> Order:
        return parse_order(json.loads(socket.recv(timeout=ANSWER_S)), self.name)

    def acknowledge(self, *seqs: int) -> None:
        answer = self.http.post("/acknowledge", json={"seqs": list(seqs)})
        assert answer.status_code == 204, answer.text

    def report(self, **fields: Any) -> httpx.Response:
        return self.http.post("/report", json={"version": "1.0", "address": "", "report": {}, **fields})


Register = Callable[..., Machine]


@pytest.fixture(autouse=True)
def orders_are_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that is acknowledged late, on a slow machine, is not sent again, unless a test is about that."""
    monkeypatch.setattr(REPEAT_S, 600.0)


@pytest.fixture
def register(url: str, root: Person) -> Iterator[Register]:
    made: list[Machine] = []

    def make(name: str, side: str = "edge", **more: Any) -> Machine:
        body = {"name": name, "side": side, **more}
        answer = httpx.post(f"{url}/neptune/nodes", json=body, headers=root.bearer, trust_env=False)
        assert answer.status_code == 201, answer.text
        made.append(Machine(url, name, answer.json()["token"]))
        return made[-1]

    yield make
    for machine in made:
        machine.http.close()


def tell(nodes: Nodes, machine: Machine, **changes: Any) -> int:
    """Number of the order."""
    what = {"namespace": "default", "name": "helmets", "generation": 1, "content": {"a": "名"}, **changes}
    key = what.pop("key", KEY)
    with nodes.database.write() as conn:
        nodes.order(conn, machine.name, key, **what)
    nodes.notify(machine.name)
    return next(order.seq for order in nodes.pending(machine.name) if order.key == key)


def end(nodes: Nodes, machine: Machine) -> None:
    with nodes.database.write() as conn:
        nodes.withdraw(conn, KEY.kind, KEY.uid)
    nodes.notify(machine.name)


def closed(socket: ClientConnection) -> tuple[int, str]:
    """Why the web ended it."""
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            socket.recv(timeout=ANSWER_S)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


# --- who they are ---------------------------------------------------------------------------------
def test_an_administrator_registers_a_node_and_is_told_its_token_and_the_command_once(url: str, root: Person) -> None:
    with root.api().http as http:
        made = http.post("/neptune/nodes", json={"name": "reg0", "side": "edge"})
        assert made.status_code == 201
        token = made.json()["token"]
        assert made.json() == {
            "name": "reg0",
            "side": "edge",
            "token": token,
            "command": f"MODELMILL_NODE_TOKEN={token} modelmill node --name reg0 --side edge "
            f"--cloud ws{url.removeprefix('http')}",
        }
        assert made.headers["Location"] == "/neptune/nodes/reg0"
        assert made.headers["Cache-Control"] == "no-store"
        assert code_of(http.post("/neptune/nodes", json={"name": "reg0", "side": "edge"})) == (409, "NODE_EXISTS")
        assert code_of(http.post("/neptune/nodes", json={"name": "Reg 0", "side": "edge"})) == (422, "BAD_NODE_NAME")
        assert http.post("/neptune/nodes", json={"name": "reg1", "side": "moon"}).status_code == 422
        shown = http.get("/neptune/nodes/reg0").json()
        assert token not in json.dumps(shown)
        assert (shown["is_online"], shown["last_seen_at"], shown["workers"]) == (False, None, [])


def test_a_user_sees_the_nodes_but_not_whose_workers_run_there_and_changes_none(
    register: Register, root: Person, bob: Person
) -> None:
    machine = register("seen0")
    worker = WorkerReport(KEY, "default", "secret-service", "little", 1, WorkerState.RUNNING, log=("secret line",))
    with machine.connected({}, worker), bob.api().http as http, root.api().http as admin:
        shown = until(lambda: admin.get("/neptune/nodes/seen0").json(), lambda node: node["is_online"])
        assert shown["workers"][0]["log"] == ["secret line"]
        seen = http.get("/neptune/nodes/seen0").json()
        assert (seen["workers"], seen["worker_states"]) == (None, {"RUNNING": 1})
        assert "secret" not in http.get("/neptune/nodes").text
        assert code_of(http.post("/neptune/nodes", json={"name": "seen1", "side": "edge"})) == (403, "FORBIDDEN")
        assert code_of(http.delete("/neptune/nodes/seen0")) == (403, "FORBIDDEN")
        assert code_of(http.get("/neptune/nodes/nobody")) == (404, "NODE_NOT_FOUND")


def test_only_a_nodes_own_token_opens_its_socket(register: Register, bob: Person) -> None:
    machine, other = register("own0"), register("own1")
    wrong = [{}, *({"Authorization": f"Bearer {token}"} for token in (other.token, bob.token, machine.token + "0"))]
    for headers in [*wrong, {"Authorization": f"Basic {machine.token}"}]:
        with pytest.raises(InvalidStatus) as caught, machine.dial(additional_headers=headers):
            pass
        assert caught.value.response.status_code == 403


def test_only_a_nodes_own_token_opens_its_paths_and_opens_nothing_else(
    url: str, register: Register, bob: Person, root: Person
) -> None:
    machine, other = register("path0"), register("path1")
    paths = [("GET", "/messages?wait=0"), ("POST", "/acknowledge"), ("POST", "/report"), ("GET", f"/blobs/{'0' * 64}")]
    for method, path in paths:
        where = f"/neptune/link/path0{path}"
        assert code_of(other.http.request(method, f"{url}{where}", json={})) == (403, "FORBIDDEN")
        for user in (bob, root):
            with user.api().http as http:
                assert code_of(http.request(method, where, json={})) == (401, "UNAUTHORIZED")
        wrong = {"Authorization": f"Bearer {machine.token[:-1]}"}
        assert httpx.request(method, f"{url}{where}", headers=wrong, trust_env=False).status_code == 401
    for path in ("/jobs", "/neptune/nodes", "/api/v2/me", "/ui/nodes"):
        answer = machine.http.get(f"{url}{path}", headers={"Accept": "application/json"})
        assert answer.status_code == 401, path


def test_a_new_token_ends_the_connection_of_the_old_one(register: Register) -> None:
    machine = register("again0")
    with machine.connected() as socket:
        renewed = register("again0", replace=True)
        assert closed(socket)[0] == 4401
    with pytest.raises(InvalidStatus), machine.dial():
        pass
    with renewed.dial():
        pass


def test_a_node_that_is_removed_is_disconnected_and_unknown(register: Register, nodes: Nodes, root: Person) -> None:
    machine = register("gone0")
    seq = tell(nodes, machine)
    with machine.connected() as socket, root.api().http as http:
        assert code_of(http.delete("/neptune/nodes/gone0")) == (409, "NODE_BUSY")
        assert machine.received(socket).seq == seq
        end(nodes, machine)
        assert http.delete("/neptune/nodes/gone0").status_code == 204
        assert closed(socket)[0] == 4401
        assert code_of(http.delete("/neptune/nodes/gone0")) == (404, "NODE_NOT_FOUND")
    with pytest.raises(NodeNotFound):
        nodes.get("gone0")


# --- the socket -----------------------------------------------------------------------------------
def test_an_order_goes_down_as_a_frame_and_is_done_with_once_acknowledged(register: Register, nodes: Nodes) -> None:
    machine = register("sock0")
    with machine.connected() as socket:
        until(lambda: nodes.get("sock0").last_seen_at)
        seq = tell(nodes, machine)
        frame = json.loads(socket.recv(timeout=ANSWER_S))
        assert frame["header"] == {
            "namespace": "default",
            "resourceKind": KEY.kind,
            "resourceName": "helmets",
            "operation": "insert",
            "uid": KEY.uid,
            "part": "edge",
            "seq": seq,
            "generation": 1,
        }
        assert json.loads(base64.b64decode(frame["content"])) == {"a": "名"}
        socket.send(dump_frame(acknowledge_frame([seq])))
        until(lambda: not nodes.pending("sock0"))
        tell(nodes, machine, generation=2, content={"b": 1})
        second = machine.received(socket)
        assert (second.operation, second.generation, second.content) == (Operation.UPDATE, 2, {"b": 1})
        assert second.seq > seq


def test_what_is_not_acknowledged_is_said_again_and_what_is_acknowledged_never(
    register: Register, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = register("sock1")
    heard, other = tell(nodes, machine), tell(nodes, machine, key=WorkKey(KEY.kind, "u2", "edge"))
    with machine.connected() as socket:
        assert [machine.received(socket).seq for _ in range(2)] == [heard, other]
        socket.send(dump_frame(acknowledge_frame([heard])))
        until(lambda: [order.seq for order in nodes.pending("sock1")] == [other])
        monkeypatch.setattr(REPEAT_S, 0.5)
        nodes.notify("sock1")
        assert [machine.received(socket).seq for _ in range(2)] == [other, other]


def test_what_was_ended_while_the_node_was_away_is_said_when_it_is_back(register: Register, nodes: Nodes) -> None:
    machine = register("sock2")
    with machine.connected() as socket:
        seq = tell(nodes, machine)
        machine.received(socket)
        socket.send(dump_frame(acknowledge_frame([seq])))
        until(lambda: not nodes.pending("sock2"))
    end(nodes, machine)
    with machine.connected({str(KEY): seq}) as socket:
        deletion = machine.received(socket)
        assert (deletion.operation, deletion.key) == (Operation.DELETE, KEY)
        socket.send(dump_frame(acknowledge_frame([deletion.seq])))
        until(lambda: not nodes.pending("sock2"))


def test_a_node_that_lost_its_memory_is_told_anew_and_one_with_too_much_is_told_to_end_it(
    register: Register, nodes: Nodes
) -> None:
    machine = register("sock3")
    seq = tell(nodes, machine)
    nodes.acknowledge("sock3", [seq])
    foreign = WorkKey(KEY.kind, "foreign", "edge")
    with machine.connected({str(foreign): 1}) as socket:
        told = {order.key: order.operation for order in (machine.received(socket) for _ in range(2))}
    assert told == {KEY: Operation.INSERT, foreign: Operation.DELETE}


def test_nothing_is_said_before_the_node_has_said_what_it_has(
    register: Register, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(REPEAT_S, 0.5)
    machine = register("sock4")
    tell(nodes, machine)
    with machine.dial() as socket:
        socket.send(machine.sign(None))
        until(lambda: nodes.get("sock4").last_seen_at)
        nodes.notify("sock4")
        with pytest.raises(TimeoutError):
            socket.recv(timeout=1.5)
        socket.send(machine.sign({}))
        assert machine.received(socket).key == KEY


def test_what_a_node_reports_is_what_is_known_of_it(register: Register, nodes: Nodes) -> None:
    machine = register("sock5")
    worker = WorkerReport(
        KEY,
        "default",
        "helmets",
        "little",
        3,
        WorkerState.FAILED,
        pid=12,
        address="10.0.0.7:9300",
        restarts=3,
        exit_code=-9,
        reason="Crashed",
        message="three times",
        log=("last", "words"),
        detail={"runtime": "npu"},
    )
    with machine.connected({}, worker):
        node = until(lambda: nodes.get("sock5"), lambda seen: seen.last_seen_at)
    assert (node.address, node.version, node.report.cpu, node.report.workers) == ("10.0.0.7", "1.0", 0.25, (worker,))


def test_a_second_connection_takes_the_place_of_the_first(register: Register, nodes: Nodes) -> None:
    machine = register("sock6")
    with machine.connected() as first:
        until(lambda: nodes.get("sock6").last_seen_at)
        with machine.connected() as second:
            assert closed(first)[0] == 4409
            seq = tell(nodes, machine)
            assert machine.received(second).seq == seq


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no JSON",
        "[]",
        "[" * 100_000,
        '{"header": {}, "content": "e30="}',
        '{"header": {"operation": "report"}, "content": "???"}',
        '{"header": {"operation": "report"}, "content": "e30="}',
        dump_frame(report_frame(Heartbeat("1.0", "10.0.0.7"))).replace('"content":"', '"content":"AAAA'),
        b"\xff\xfe",
        '{"header": {"operation": "delete"}, "content": "e30="}',
        '{"a": NaN}',
    ],
    ids=range(11),
)
def test_a_damaged_frame_ends_the_connection_with_a_reason(register: Register, frame: str | bytes) -> None:
    machine = register("damaged", replace=True)
    with machine.connected() as socket:
        socket.send(frame)
        code, reason = closed(socket)
    assert code == 1007
    assert reason


def test_a_frame_that_is_too_large_ends_the_connection(register: Register) -> None:
    machine = register("large0")
    with machine.connected() as socket:
        socket.send("x" * (MAX_UP_BYTES + 1))
        assert closed(socket)[0] == 1009


# --- by polling -----------------------------------------------------------------------------------
def test_a_poll_waits_for_an_order_and_answers_at_once_when_there_is_one(register: Register, nodes: Nodes) -> None:
    machine = register("poll0")
    assert machine.orders(wait=0.1) == []
    given: list[int] = []
    giving = threading.Timer(0.5, lambda: given.append(tell(nodes, machine)))
    giving.start()
    orders = machine.orders(wait=50)
    giving.join()
    assert [(order.seq, order.content) for order in orders] == [(given[0], {"a": "名"})]
    machine.acknowledge(given[0], 4711)
    assert nodes.pending("poll0") == []


def test_a_poll_is_told_again_what_it_does_not_acknowledge_but_not_at_once(
    register: Register, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = register("poll1")
    seq = tell(nodes, machine)
    assert [order.seq for order in machine.orders()] == [seq]
    assert machine.orders() == []
    monkeypatch.setattr(REPEAT_S, 0.5)
    assert [order.seq for order in machine.orders(wait=50)] == [seq]


def test_a_node_that_polls_connects_by_its_first_report(register: Register, nodes: Nodes) -> None:
    machine = register("poll2")
    seq = tell(nodes, machine)
    nodes.acknowledge("poll2", [seq])
    assert machine.report(known={str(KEY): seq}).status_code == 204
    assert machine.orders() == []
    for _ in range(2):  # each time it is back it is told at once
        assert machine.report(known={}).status_code == 204
        assert [order.seq for order in machine.orders()] == [seq]
    assert nodes.get("poll2").version == "1.0"


def test_a_second_poll_ends_the_first_which_is_told_so(register: Register, web: Starlette) -> None:
    machine = register("poll3")

    async def two() -> tuple[httpx.Response, httpx.Response]:
        bearer = {"Authorization": f"Bearer {machine.token}"}
        async with httpx.AsyncClient(base_url=str(machine.http.base_url), headers=bearer, trust_env=False) as http:
            first = asyncio.create_task(http.get("messages", params={"wait": 50}, timeout=60))
            while "poll3" not in web.state.node_links._connections:
                await asyncio.sleep(0.02)
            second = await http.get("messages", params={"wait": 0})
            return await first, second

    first, second = asyncio.run(two())
    assert code_of(first) == (409, "LINK_SUPERSEDED")
    assert second.json() == {"messages": []}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/report", b"{"),
        ("/report", b"[]"),
        ("/report", b'{"report": 3}'),
        ("/report", b'{"report": {"cpu": "much"}}'),
        ("/report", b'{"report": {"cpu": 1e999}}'),
        ("/report", b'{"report": {}, "known": {"one": 1}}'),
        ("/report", b'{"report": {}, "address": "a b"}'),
        ("/report", b'{"report": {}, "version": "\\ud800"}'),
        ("/report", b'{"report": {}, "known": {"k/u/p": -1}}'),
        ("/report", b'{"report": {}, "known": {"k/\\u0000/p": 1}}'),
        ("/acknowledge", b"{}"),
        ("/acknowledge", b'{"seqs": [true]}'),
        ("/acknowledge", b'{"seqs": [99999999999]}'),
    ],
)
def test_a_damaged_body_is_refused_with_a_reason(register: Register, path: str, body: bytes) -> None:
    machine = register("damaged", replace=True)
    assert code_of(machine.http.post(path, content=body)) == (400, "BAD_FRAME")


def test_a_body_that_is_too_large_and_a_wait_that_is_too_long_are_refused(register: Register) -> None:
    machine = register("large1")
    assert code_of(machine.http.post("/report", content=b" " * (MAX_UP_BYTES + 1))) == (413, "TOO_LARGE")
    assert machine.http.get("/messages", params={"wait": 3600}).status_code == 422


# --- files ----------------------------------------------------------------------------------------
def test_a_file_is_for_the_node_whose_order_names_it(register: Register, nodes: Nodes, container: Container) -> None:
    machine, other = register("blob0"), register("blob1")
    body = bytes(range(256)) * 10
    sha256, unnamed = "a" * 64, "b" * 64
    for name in (sha256, unnamed):
        container.objects.put(blob_key(name), [body])
    tell(nodes, machine, content={"model": {"sha256": sha256}, "twin": {"sha256": "c" * 64}})
    answer = machine.http.get(f"/blobs/{sha256}")
    assert (answer.status_code, answer.content) == (200, body)
    part = machine.http.get(f"/blobs/{sha256}", headers={"Range": "bytes=100-"})
    assert (part.status_code, part.content) == (206, body[100:])
    for machine_, name in ((machine, unnamed), (other, sha256), (machine, "..%2F..%2Fx"), (machine, "A" * 64)):
        assert machine_.http.get(f"/blobs/{name}").status_code == 404
    assert code_of(machine.http.get(f"/blobs/{'c' * 64}")) == (404, "BLOB_NOT_FOUND")
    end(nodes, machine)
    assert code_of(machine.http.get(f"/blobs/{sha256}")) == (404, "BLOB_NOT_FOUND")


# --- pages ----------------------------------------------------------------------------------------
def test_an_administrator_adds_a_node_on_a_page_renews_its_token_and_removes_it(root: Person, nodes: Nodes) -> None:
    with root.browser() as page:
        assert "modelmill nodes add" in page.get("/ui/nodes").text or nodes.all()
        taken = page.post("/ui/nodes/new", data={"name": "Bad Name", "side": "edge"})
        assert taken.status_code == 422
        assert 'value="Bad Name"' in taken.text
        made = page.post("/ui/nodes/new", data={"name": "page0", "side": "host"})
        assert "mn_page0_" in made.text
        assert "modelmill node --name page0 --side host --cloud ws://" in made.text
        assert nodes.get("page0").side is Side.HOST
        assert "mn_page0_" not in page.get("/ui/nodes/page0").text
        for at, words in ((to_text(now()), "the last"), ("no time", "")):
            lost = NodeReport(lost_reports=1234, lost_reports_at=at)
            nodes.report("page0", lost, address="", version="", now=now())
            text = page.get("/ui/nodes/page0").text
            assert all(word in text for word in ("Lost reports", "1,234", words))
            assert httpx.get(f"{root.url}/neptune/nodes/page0", headers=root.bearer).json()["lost_reports"] == 1234
        report = NodeReport(refused_reports=2345, refused_reports_at=to_text(now()), refusal="NOT_FOUND: <no job>")
        nodes.report("page0", report, address="", version="", now=now())
        text = page.get("/ui/nodes/page0").text
        assert all(word in text for word in ("Refused reports", "2,345", "NOT_FOUND: &lt;no job&gt;"))
        assert httpx.get(f"{root.url}/neptune/nodes/page0", headers=root.bearer).json()["refused_reports"] == 2345
        assert page.get("/ui/nodes/page0/token").status_code == 200
        assert "mn_page0_" in page.post("/ui/nodes/page0/token").text
        tell(nodes, Machine("http://x", "page0", ""))
        refused = page.post("/ui/nodes/page0/remove")
        assert refused.status_code == 409
        with nodes.database.write() as conn:
            nodes.withdraw(conn, KEY.kind, KEY.uid)
        removed = page.post("/ui/nodes/page0/remove")
        assert removed.headers["Location"] == "/ui/nodes?note=removed"
        assert nodes.find("page0") is None


def test_a_user_finds_the_figures_of_a_node_on_its_pages_and_no_way_to_change_it(
    register: Register, bob: Person, root: Person
) -> None:
    machine = register("page1")
    worker = WorkerReport(
        KEY,
        "default",
        "secret-service",
        "secret-worker",
        1,
        WorkerState.FAILED,
        pid=4242,
        exit_code=137,
        reason="Crashed",
        log=("secret <line>",),
    )
    with machine.connected({}, worker), bob.browser() as page, root.browser() as admin:
        seen = until(lambda: admin.get("/ui/nodes/page1").text, lambda text: PID in text)
        assert "secret &lt;line&gt;" in seen
        assert "137" in seen
        assert "secret-worker" in admin.get("/ui/nodes").text
        for path in ("/ui/nodes", "/ui/nodes/page1"):
            text = page.get(path).text
            assert "page1" in text
            assert "25 %" in text
            assert "secret" not in text
            assert PID not in text
            assert "<html" not in page.get(path, headers={"HX-Request": "true"}).text
        for path in ("new", "page1/token", "page1/remove"):
            assert page.get(f"/ui/nodes/{path}").status_code == 403
            assert page.post(f"/ui/nodes/{path}", data={"name": "x"}).status_code == 403
        assert page.get("/ui/nodes/nobody").status_code == 404


# --- the end --------------------------------------------------------------------------------------
def test_a_nodes_videos_are_on_its_pages_with_a_way_to_a_job_on_each(
    register: Register, bob: Person, nodes: Nodes
) -> None:
    register("page2")
    videos = {"0": {"type": "people <indoor>", "name": "classroom.mp4"}, "a&b": {"type": "traffic", "name": ""}}
    offers = {"videojobs": {"address": "10.0.0.7:9100", "videos": videos}}
    nodes.report("page2", NodeReport(offers=offers), address="10.0.0.7", version="1.0", now=now())
    with bob.browser() as page:
        assert page.get("/neptune/nodes/page2").json()["offers"] == offers
        for path in ("/ui/nodes", "/ui/nodes/page2"):
            text = page.get(path).text
            assert "people &lt;indoor&gt;" in text
            assert "classroom.mp4" in text
            assert 'href="/ui/video/new?node=page2&amp;video=0"' in text
            assert 'href="/ui/video/new?node=page2&amp;video=a%26b"' in text
            assert "以此影片新增工作" in page.get(path, headers={"Accept-Language": "zh-TW"}).text


def test_pages_say_to_administrators_what_keeps_reports_on_a_node(
    register: Register, nodes: Nodes, bob: Person, root: Person
) -> None:
    register("page3")
    full = NodeReport(report_problem="its disk is full", delivery_problem="The object store is full")
    nodes.report("page3", full, address="10.0.0.7", version="1.0", now=now())
    with bob.browser() as page, root.browser() as admin:
        for path in ("/ui/nodes", "/ui/nodes/page3"):
            text = admin.get(path).text
            assert "cannot store what its workers report: its disk is full." in text
            assert "does not take what the node reports: The object store is full." in text
            assert "full" not in page.get(path).text


def test_a_web_that_ends_lets_go_of_its_nodes_and_does_not_wait_for_their_polls(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment, httpx.Client(base_url=deployment.url, trust_env=False) as http:
        web = deployment.web()
        made = [http.post("/neptune/nodes", json={"name": name}).json() for name in "ab"]
        dialling, polling = (Machine(deployment.url, each["name"], each["token"]) for each in made)
        with dialling.connected() as node, socket.create_connection(("127.0.0.1", deployment.web_port)) as poll:
            poll.sendall(
                b"GET /neptune/link/b/messages?wait=50 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                + f"Authorization: Bearer {polling.token}\r\n\r\n".encode()
            )
            assert http.get("/healthz").status_code == 200  # what came before this is being answered
            web.terminate()
            assert closed(node)[0] == 1012
            answer = poll.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b'{"messages":[]}')
        assert web.wait(120) is not None
        for machine in (dialling, polling):
            machine.http.close()


# --- the command line -----------------------------------------------------------------------------
def run(who: Person, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`modelmill nodes arguments`, its output into a pipe."""
    env = {**os.environ, "MODELMILL_URL": who.url, "MODELMILL_TOKEN": who.token}
    return command_line.run("nodes", *arguments, environment=env)


def test_an_administrator_adds_lists_and_removes_nodes_on_the_command_line(
    root: Person, bob: Person, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(who: Person, *arguments: str) -> tuple[int, str]:
        """Exit code and output of the same in this process."""
        monkeypatch.setenv("MODELMILL_URL", who.url)
        monkeypatch.setenv("MODELMILL_TOKEN", who.token)
        return command_line.typed(monkeypatch, "nodes", *arguments), capsys.readouterr().out

    added = run(root, "add", "typed0", "--side", "cloud")
    assert added.returncode == 0
    assert added.stdout.startswith("mn_typed0_")
    assert "modelmill node --name typed0 --side cloud --cloud ws://" in added.stderr
    again = run(root, "add", "typed0")
    assert (again.returncode, again.stdout) == (2, "")
    renewed = json.loads(typed(root, "add", "typed0", "--side", "cloud", "--replace", "--json")[1])
    assert renewed["token"] != added.stdout.strip()
    listed = next(line for line in typed(bob, "list")[1].splitlines() if line.startswith("typed0"))
    assert listed.split() == ["typed0", "cloud", "never", "seen", "0", "of", "0", "workers", "run"]
    assert "typed0" in {node["name"] for node in json.loads(typed(bob, "list", "--json")[1])}
    assert typed(bob, "remove", "typed0")[0] == 2
    assert typed(root, "add", "typed1", "--side", "moon")[0] == 2
    assert typed(root, "remove", "typed0")[0] == 0
    assert nodes.find("typed0") is None
    assert typed(root, "remove", "typed0")[0] == 4
