"""The agent's rules without processes: pauses, addresses, logs, the environment of workers, figures, its server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.bootstrap import edge
from app.cli import node
from app.edge.agent import host_metrics, options, report_store, worker_status
from app.edge.agent.agent import NodeAgent
from app.edge.agent.allocation import environment_for_workers
from app.edge.agent.backoff import Backoff, FailureCounter
from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import WorkRefused
from app.edge.agent.process import WorkerProcess, identity_of
from app.edge.agent.server import build_application, listen
from app.edge.agent.store import AgentStore
from app.edge.agent.web_client import WebClient
from app.edge.agent.worker_status import exit_text
from app.kit.errors import BadInput, ModelmillError
from app.nodes.model import Operation, Order, WorkKey
from tests.harness.agent.program import ProgramDriver
from tests.harness.paths import REPOSITORY

ORDER = Order(1, "edge0", WorkKey("programs", "0123456789ab", "edge"), "default", "a/../b", Operation.INSERT, 1, {})


# pauses
def test_the_pause_doubles_to_a_minute() -> None:
    ends, now = FailureCounter(), 0.0
    pauses = list[float]()
    for _ in range(9):
        now += ends.pause_s + 0.5
        ends = ends.after(started=now - 0.5, now=now)
        pauses.append(ends.pause_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_minute_of_running_brings_back_the_first_pause() -> None:
    ends = FailureCounter((0.0,), 32.0)
    assert ends.after(started=100.0, now=159.9).pause_s == 60
    assert ends.after(started=100.0, now=160.0).pause_s == 1


def test_three_ends_within_a_minute_are_too_many() -> None:
    two = FailureCounter().after(started=0, now=1).after(started=2, now=3)
    assert not two.are_too_many
    assert two.after(started=5, now=60.9).are_too_many
    assert not two.after(started=5, now=61.1).are_too_many


def test_tries_to_reach_the_web_come_a_little_apart_and_at_most_half_a_minute() -> None:
    pauses = Backoff()
    waits = [pauses.next_s() for _ in range(8)]
    for wait, least in zip(waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert least <= wait <= least * 1.3
    pauses.reset()
    assert pauses.next_s() <= 1.3


# what it is told
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("ws://host:8080", "http://host:8080"),
        ("wss://host", "https://host"),
        ("https://host/mill/", "https://host/mill"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_web_may_be_named_by_either_scheme(text: str, url: str) -> None:
    assert options.web_url(text) == url


@pytest.mark.parametrize(
    "text", ["host:8080", "ftp://host", "ws://", "ws://host:99999", "ws://h?x=1", "ws://a:b@h", ""]
)
def test_what_is_no_address_of_a_web_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no address"):
        options.web_url(text)


def test_where_to_listen_is_read() -> None:
    assert options.listen_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert options.listen_address("[::1]:9100") == ("::1", 9100)
    assert options.listen_address("9100") == ("127.0.0.1", 9100)
    for wrong in ("host", "host:", "host:70000", "host:-1", "host:²"):
        with pytest.raises(BadInput):
            options.listen_address(wrong)


def test_cpus_are_read() -> None:
    assert options.cpu_numbers("0, 2-4") == {0, 2, 3, 4}
    assert options.cpu_numbers("") == set()
    for wrong in ("a", "1-", "0;1"):
        with pytest.raises(BadInput):
            options.cpu_numbers(wrong)


def test_an_address_for_others_is_demanded_where_none_can_be_known() -> None:
    assert options.reachable_address("10.0.0.5", None) == "10.0.0.5"
    assert options.reachable_address("0.0.0.0", "10.0.0.5") == "10.0.0.5"
    with pytest.raises(BadInput, match="--bind"):
        options.reachable_address("0.0.0.0", None)


@pytest.mark.parametrize(
    ("listen", "address"), [("192.0.2.2", "192.0.2.2"), ("127.0.0.1", "10.0.0.7"), ("0.0.0.0", "10.0.0.7")]
)
def test_the_agent_is_reached_where_it_listens_if_that_is_an_address_for_others(listen: str, address: str) -> None:
    given = options.AgentOptions(
        "edge0", options.Side.EDGE, "http://127.0.0.1:1", Path(), listen_host=listen, address="10.0.0.7"
    )
    assert given.agent_host == address


@pytest.mark.parametrize("name", ["Edge", "-a", "a/b", "", "a" * 64])
def test_a_name_that_is_none_of_a_node_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        options.check_name(name)


TLS_FLAGS = ("tls_key", "tls_certificate", "tls_authorities")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Edge 0"}, "no name for a node"),
        ({"name": "edge0", "cloud": "edge"}, "no address of the web"),
        ({"name": "edge0", "listen": "here"}, "nothing to listen on"),
        ({"name": "edge0", "bind": "0.0.0.0"}, "where to reach the workers"),
        ({"name": "edge0", "cpus": "all"}, "names no CPUs"),
        ({"name": "edge0", "sink_networks": "10.0.0.0/8, here"}, "'here'"),
        ({"name": "edge0", "media_server": "http://10.0.0.1"}, "no address of a media server"),
        ({"name": "edge0", "discover": "eth0"}, "'eth0' is no address"),
        ({"name": "edge0", "source": [" "]}, "an empty text offers no source"),
        *(({"name": "edge0", flag: Path("/a.pem")}, "belong together") for flag in TLS_FLAGS),
        ({"name": "edge0", "token_file": Path("/nowhere/token")}, "cannot be read"),
        ({"name": "edge0", "token_file": Path("/dev/null")}, "no token in"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(edge, "run_node", lambda _: None)
    with pytest.raises(ModelmillError, match=message):
        node.node(**arguments)


# logs
def test_a_log_has_its_services_name_and_stays_in_its_folder(tmp_path: Path) -> None:
    assert worker_status.log_path(tmp_path, ORDER) == tmp_path / "edge-a_.._b-01234567.log"


def test_a_long_log_is_kept_once_and_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_status, "MOST_BYTES", 10)
    log = tmp_path / "x.log"
    with log.open("ab") as file:
        file.write(b"0123456789")
        file.flush()
        assert not worker_status.rotate(log)
        file.write(b"!")
        file.flush()
        assert worker_status.rotate(log)
        file.write(b"more")
    assert log.read_bytes() == b"more"
    assert (tmp_path / "x.log.1").read_bytes() == b"0123456789!"
    worker_status.delete(log)
    assert list(tmp_path.iterdir()) == []


def test_the_last_lines_are_those_of_this_life(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"before\n" + b"".join(b"line %d\n" % number for number in range(30)))
    assert worker_status.last_lines(log, 7) == tuple(f"line {number}" for number in range(10, 30))
    log.write_bytes(b"before\nafter \xff\x00\x1b[31m\n\n" + b"x" * 1000)
    lines = worker_status.last_lines(log, 7)
    assert lines[0] == "after � [31m" and lines[1] == "x" * 300 and len(lines) == 2
    assert worker_status.last_lines(log, 10_000)[0] == "before"
    assert worker_status.last_lines(tmp_path / "none.log") == ()


def test_an_end_is_told_in_words() -> None:
    assert exit_text(3) == "ended with exit code 3"
    assert exit_text(-9) == "was ended by SIGKILL"
    assert exit_text(-99) == "was ended by signal 99"
    assert "nobody saw" in exit_text(None)


# what workers get
def test_workers_get_the_environment_without_our_secrets() -> None:
    secrets = ("MODELMILL_TOKEN", "MODELMILL_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "PATHS", "XPATH")
    ours = {**dict.fromkeys(secrets, "x"), "PATH": "/bin", "LC_ALL": "C", "MODELMILL_LOG_LEVEL": "debug"}
    kept = {"PATH": "/bin", "LC_ALL": "C", "MODELMILL_LOG_LEVEL": "debug"}
    kept |= {"MODELMILL_LOG_FORMAT": "console", "OPENBLAS_NUM_THREADS": "1"}
    assert environment_for_workers(ours) == kept
    assert environment_for_workers(ours, ["HTTPS_PROXY"]) == {**kept, "HTTPS_PROXY": "x"}
    of_the_administrator = {"MODELMILL_LOG_FORMAT": "json", "OPENBLAS_NUM_THREADS": "4"}
    assert environment_for_workers(of_the_administrator) == of_the_administrator


# figures
def test_figures_are_shares_and_sizes(tmp_path: Path) -> None:
    report = host_metrics.host_report(tmp_path)
    assert 0 <= report.cpu <= 1 and 0 < report.memory < 1
    assert report.cores >= 1 and report.memory_bytes > 1 << 20 and report.free_disk_bytes > 0


def test_cards_of_nvidia_are_named_as_their_driver_does(tmp_path: Path) -> None:
    assert host_metrics._list_nvidia(tmp_path / "none") == ()
    assert host_metrics._list_nvidia(tmp_path) == ("NVIDIA",)
    for number, lines in enumerate(("Model: \t NVIDIA T4\nIRQ: 1\n", "IRQ: 2\n")):
        card = tmp_path / "gpus" / f"0000:0{number}"
        card.mkdir(parents=True)
        (card / "information").write_text(lines)
    assert host_metrics._list_nvidia(tmp_path) == ("NVIDIA T4", "NVIDIA")


@pytest.mark.slow
def test_npus_of_kneron_are_named_by_the_vendors_package() -> None:
    look = (
        "import kp; from app.edge.agent import host_metrics\n"
        "kp.core.connected += [kp.DeviceDescriptor(1, 0x720), kp.DeviceDescriptor(2, 0x999)]\n"
        "print(host_metrics._list_kneron())\n"
        "del kp.core.scan_devices; print(host_metrics._list_kneron())"
    )
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'tests' / 'standins'}:{REPOSITORY}"}
    output = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, env=environment)
    assert output.stdout == "('Kneron KL720', 'Kneron NPU')\n()\n"


# whose process it is
def test_a_process_is_adopted_by_its_pid_and_its_start() -> None:
    async def adopt(pid: int, identity: str) -> bool:
        adopted = WorkerProcess.adopt(pid, identity)
        if adopted is not None:
            adopted.detach()
        return adopted is not None

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = identity_of(child.pid)
        assert identity
        assert asyncio.run(adopt(child.pid, identity))
        assert not asyncio.run(adopt(child.pid, identity + "1"))
        assert not asyncio.run(adopt(child.pid, ""))
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert identity_of(child.pid) == ""  # no more than its exit code
    assert not asyncio.run(adopt(child.pid, identity))


# the server
@pytest.mark.parametrize(
    ("client", "headers", "token", "status"),
    [
        ("agent", {}, "t", 200),
        ("agent", {"Origin": "https://evil.example"}, "t", 403),
        ("127.0.0.1", {}, "t", 200),
        ("::1", {}, "", 200),
        ("10.0.0.5", {}, "t", 401),
        ("10.0.0.5", {"Authorization": "Bearer t"}, "t", 200),
        ("10.0.0.5", {"Authorization": "Bearer other"}, "t", 401),
        ("10.0.0.5", {"Authorization": "Bearer "}, "", 401),
        ("127.0.0.1", {"Origin": "https://evil.example"}, "t", 403),
        ("127.0.0.1", {"Sec-Fetch-Site": "cross-site"}, "t", 403),
    ],
)
def test_who_may_ask_the_agent(client: str, headers: dict[str, str], token: str, status: int) -> None:
    app = build_application([], token=lambda: token, health=lambda: {"status": "ok"})

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as http:
            return await http.get("/healthz", headers=headers)

    assert asyncio.run(answer()).status_code == status


class BadDriver:
    kind = "bad"

    def routes(self, agent: object) -> list[Any]:
        return []

    def offers(self, agent: object) -> dict[str, Any]:
        raise RuntimeError("somebody's mistake")


class GoodDriver(BadDriver):
    kind = "good"

    def offers(self, agent: object) -> dict[str, Any]:
        assert isinstance(agent, NodeAgent)
        return {"address": agent.own_address}


def test_what_cannot_be_offered_keeps_nothing_else_from_being_reported_nor_that_reports_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_store, "OUTBOX_MOST", 1)

    async def report() -> Any:
        given = options.AgentOptions("edge0", options.Side.EDGE, "http://127.0.0.1:1", tmp_path, address="10.0.0.7")
        store, web = AgentStore(tmp_path / "agent.db", "edge0"), WebClient(given.cloud, "edge0")
        for body in (b"1", b"2"):
            store.reports.push("/told/a", body, "text/plain", "")
        refused = store.reports.oldest()
        assert refused is not None
        store.reports.remove_refused(refused, "NOT_FOUND: no such job")
        lost_at = store.reports.lost.last_at
        with listen("127.0.0.1", 0) as listen_address:
            agent = NodeAgent(given, [BadDriver(), GoodDriver()], Cameras(), store, web, listen_address)  # type: ignore[list-item]
            heartbeat, port = agent._heartbeat(False).report, listen_address.getsockname()[1]
        await web.close()
        store.close()
        assert heartbeat.offers == {"good": {"address": f"10.0.0.7:{port}"}}
        assert (heartbeat.lost_reports, heartbeat.lost_reports_at) == (1, lost_at)
        assert (heartbeat.refused_reports, heartbeat.refusal) == (1, "NOT_FOUND: no such job")
        assert heartbeat.refused_reports_at >= lost_at

    asyncio.run(report())


class ReadingDriver(ProgramDriver):
    """Starts nothing."""

    def program(self, order: Order, place: object) -> Any:
        raise WorkRefused("Not now.", reason="Later")

    def sources(self, order: Order) -> list[str]:
        if not order.content:
            raise WorkRefused("No source is named.", reason="BadOrder")
        return [order.content["source"]]


def test_an_agent_knows_which_sources_its_workers_read(tmp_path: Path) -> None:
    async def read() -> set[str]:
        given = options.AgentOptions("edge0", options.Side.EDGE, "http://127.0.0.1:1", tmp_path)
        store, web = AgentStore(tmp_path / "agent.db", "edge0"), WebClient(given.cloud, "edge0")
        with listen("127.0.0.1", 0) as listen_address:
            agent = NodeAgent(given, [ReadingDriver()], Cameras(), store, web, listen_address)
            for seq, content in enumerate(({}, {"source": "rtsp://camera/1"}, {"source": "rtsp://camera/2"}), 1):
                await agent.take(replace(ORDER, seq=seq, key=replace(ORDER.key, uid=f"{seq}"), content=content))
            gone = replace(ORDER, seq=9, key=replace(ORDER.key, uid="3"), operation=Operation.DELETE)
            await agent.take(replace(gone, content={"source": "rtsp://camera/2"}))
            sources = agent.sources_read()
            await agent._supervisor.stop(ends_workers=True)
        await web.close()
        store.close()
        return sources

    assert asyncio.run(read()) == {"rtsp://camera/1"}
