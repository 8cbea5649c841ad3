"""A node's agent, its workers and the web that tells it what to run: each a process or a server of its own."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.nodes.model import WorkerState
from tests.harness.addresses import lan_addresses
from tests.harness.agent.node import SERVES, SLEEPS, Node
from tests.harness.agent.web import TOKEN, ScriptedWeb, scripted_web
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.processes import is_alive
from tests.harness.until import until

LOADS = """
import http.server, os
class Loading(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("{folder}/asked", "a").write("x")
        self.send_response(200 if os.path.exists("{folder}/loaded") else 503); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Loading).serve_forever()
"""
LISTENS = """
import os, socket, time
while not os.path.exists("{folder}/loaded"):
    time.sleep(0.1)
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as found:
    while True:
        found.accept()
"""
TELLS = """
import json, os, time, urllib.request
request = urllib.request.Request(os.environ["AGENT"] + "/workers/helmet-edge-worker", b'{"status": 200}')
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
time.sleep(600)
"""
CRASHES = "import sys; print('the model is of wood'); sys.exit(3)"
RUNNING, BACKOFF, FAILED = WorkerState.RUNNING, WorkerState.BACKOFF, WorkerState.FAILED


@pytest.fixture
def web() -> Iterator[ScriptedWeb]:
    with scripted_web() as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, web: ScriptedWeb) -> Iterator[Node]:
    made = Node(tmp_path, web.url)
    yield made
    made.close()
    left = made.workers()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    tolerated = made.process is not None and made.process.returncode in (-signal.SIGKILL, 0)
    assert not left or tolerated


def test_an_order_becomes_a_process_that_serves_and_is_reported_running(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    worker = web.until(key, state=RUNNING)
    assert (worker.name, worker.owner_name, worker.generation) == ("helmet-edge-worker", "helmet", 1)
    assert worker.address.startswith("127.0.0.1:")
    assert httpx.get(f"http://{worker.address}/", trust_env=False).status_code == 200
    assert node.workers() == [worker.pid]
    assert web.orders[key].is_acknowledged
    assert web.by == {"socket"}
    assert web.report.cores >= 1 and web.report.memory_bytes > 0 and web.report.free_disk_bytes > 0


def test_a_worker_runs_once_it_says_that_it_is_well_and_not_before(
    web: ScriptedWeb, node: Node, tmp_path: Path
) -> None:
    key = web.order("helmet", LOADS.format(folder=tmp_path), is_served=True)
    questions = tmp_path / "asked"
    node.start()
    until(lambda: questions.is_file() and len(questions.read_text()) >= 3)
    web.until(key, state=WorkerState.STARTING)
    assert RUNNING not in {worker.state for sign in web.signs for worker in sign.report.workers}
    (tmp_path / "loaded").touch()
    web.until(key, state=RUNNING)


def test_a_worker_that_only_listens_runs_once_it_does_and_tells_where(
    web: ScriptedWeb, node: Node, tmp_path: Path
) -> None:
    quiet, key = web.order("quiet", SLEEPS), web.order("helmet", LISTENS.format(folder=tmp_path), listens=True)
    node.start()
    assert web.until(quiet, state=RUNNING).address == ""
    web.until(key, state=WorkerState.STARTING)
    states = {worker.state for sign in web.signs for worker in sign.report.workers if worker.key == key}
    assert states == {WorkerState.STARTING}
    (tmp_path / "loaded").touch()
    host, _, port = web.until(key, state=RUNNING).address.partition(":")
    socket.create_connection((host, int(port))).close()


def test_a_killed_worker_is_started_again_on_its_port(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    os.kill(before.pid, signal.SIGKILL)
    ended = web.until(key, state=BACKOFF)
    assert ended.exit_code == -signal.SIGKILL
    assert "SIGKILL" in ended.message and ended.pid == 0 and ended.address == ""
    after = web.until(key, state=RUNNING)
    assert after.pid != before.pid and after.restarts == 1
    assert after.address == before.address


@pytest.mark.slow
def test_three_ends_within_a_minute_are_a_failure_with_its_last_lines_and_the_other_worker_runs_on(
    web: ScriptedWeb, node: Node
) -> None:
    sound, broken = web.order("sound", SERVES, is_served=True), web.order("broken", CRASHES)
    node.start()
    failed = web.until(broken, state=FAILED)
    assert failed.exit_code == 3 and failed.reason == "CrashLoop"
    assert "broken-edge-worker" in failed.message and "exit code 3" in failed.message
    assert failed.log == ("the model is of wood",)
    until(lambda: web.worker(broken), lambda seen: seen.restarts >= 3)  # it is tried again
    assert web.until(sound, state=RUNNING).restarts == 0
    web.order("broken", SERVES, is_served=True)
    mended = web.until(broken, state=RUNNING, generation=web.orders[broken].generation)
    assert (mended.exit_code, mended.reason, mended.log) == (None, "", ())


def test_a_worker_that_is_not_to_be_restarted_ends_once(web: ScriptedWeb, node: Node) -> None:
    key = web.order("once", CRASHES, restarts=False)
    node.start()
    failed = web.until(key, state=FAILED)
    assert (failed.reason, failed.exit_code, failed.restarts) == ("Ended", 3, 0)
    node.end()
    web.signs.clear()
    node.start()
    again = web.until(key, state=FAILED)
    assert (again.started_at, again.restarts) == (failed.started_at, 0)
    assert again.log == ("the model is of wood",)


def test_a_killed_agent_leaves_its_workers_which_the_next_one_adopts(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    node.end(signal.SIGKILL)
    assert is_alive(before.pid)
    web.signs.clear()
    node.start()
    after = web.until(key, state=RUNNING)
    assert web.signs[0].report.workers == (before,)  # nobody has seen that it was alone
    assert after == before
    assert len(node.workers()) == 1
    os.kill(after.pid, signal.SIGKILL)
    assert web.until(key, state=BACKOFF).exit_code is None
    assert web.until(key, state=RUNNING).address == before.address


def test_a_worker_that_ended_while_no_agent_was_there_is_started_again(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    assert node.end(signal.SIGTERM) == 0
    assert is_alive(before.pid)
    os.kill(before.pid, signal.SIGKILL)
    web.signs.clear()
    node.start()
    after = web.until(key, state=RUNNING)
    assert after.pid != before.pid and after.address == before.address


def test_an_interrupted_agent_ends_its_workers_with_all_that_they_started(web: ScriptedWeb, node: Node) -> None:
    starts = "import subprocess, sys; subprocess.Popen([sys.executable, __file__, 'x']) if len(sys.argv) < 2 else 0"
    key = web.order("family", f"{starts}\n{SLEEPS}")
    node.start()
    until(lambda: len(node.workers()) == 2)
    web.until(key, state=RUNNING)
    assert node.end(signal.SIGINT) == 0
    assert node.workers() == []


def test_what_a_worker_started_ends_with_it(web: ScriptedWeb, node: Node) -> None:
    starts = "import subprocess, sys; subprocess.Popen([sys.executable, __file__, 'x']) if len(sys.argv) < 2 else 0"
    key = web.order("careless", f"{starts}\nif len(sys.argv) < 2: sys.exit(1)\n{SLEEPS}", restarts=False)
    node.start()
    web.until(key, state=FAILED)
    until(lambda: node.workers() == [])


def test_sigterm_ends_the_workers_where_that_is_wanted(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start("--stop-workers")
    web.until(key, state=RUNNING)
    assert node.end(signal.SIGTERM) == 0
    assert node.workers() == []


@pytest.mark.slow
def test_a_worker_that_will_not_end_is_killed(web: ScriptedWeb, node: Node) -> None:
    key = web.order("deaf", f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEPS}")
    node.start()
    pid = web.until(key, state=RUNNING).pid
    web.withdraw(key)
    until(lambda: web.orders[key].is_acknowledged and not is_alive(pid))


def test_a_delete_while_the_node_was_away_is_applied_when_it_is_back(web: ScriptedWeb, node: Node) -> None:
    file = web.keep(b"weights")
    key, other = web.order("gone", SERVES, is_served=True, files=[file]), web.order("stays", SLEEPS)
    node.start()
    pid = web.until(key, state=RUNNING).pid
    assert (node.data / "blobs" / file[0]).exists()
    web.stop()
    web.withdraw(key)
    web.start()
    until(lambda: web.worker(key) is None and web.orders[key].is_acknowledged)
    assert not is_alive(pid)
    assert node.rows("orders") == node.rows("workers") == 1
    until(lambda: list((node.data / "blobs").iterdir()) == [])
    assert [folder.name for folder in (node.data / "work").iterdir()] == [f"edge-{other.uid}"]
    assert [log.name for log in (node.data / "logs").iterdir()] == ["edge-stays-uid-stay.log"]


def test_the_same_order_again_is_one_row_and_one_process(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    web.repeat()
    until(lambda: web.orders[key].is_acknowledged)
    later = web.until(web.order("later", SERVES, is_served=True), state=RUNNING)
    assert set(node.workers()) == {before.pid, later.pid}
    assert node.rows("orders") == 2


def test_another_program_takes_the_place_of_the_one_that_runs_and_a_mere_generation_does_not(
    web: ScriptedWeb, node: Node
) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    web.order("helmet", SERVES, is_served=True)
    same = web.until(key, generation=2)
    assert (same.pid, same.state) == (before.pid, RUNNING)
    web.order("helmet", SERVES + "# other", is_served=True)
    after = web.until(key, generation=3, state=RUNNING)
    assert after.pid != before.pid and after.address == before.address
    assert node.workers() == [after.pid]


def test_a_worker_that_cannot_be_changed_goes_on_and_is_not_said_to_be_the_new_one(
    web: ScriptedWeb, node: Node
) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    before = web.until(key, state=RUNNING)
    assert (before.generation, before.former_generation) == (1, 0)
    web.order("helmet", SERVES, is_served=True, files=[["0" * 64, 1 << 60]])
    stuck = web.until(key, generation=2, state=FAILED)
    assert (stuck.reason, stuck.pid, stuck.former_generation) == ("DiskFull", before.pid, 1)
    assert "no space left on the disk" in stuck.message
    assert node.http.post("/workers/helmet-edge-worker", json={"model": "the old one"}).status_code == 200
    worker = web.until(key, detail={"model": "the old one"})
    assert (worker.state, worker.generation, worker.former_generation) == (FAILED, 2, 1), (
        "what it says is of the program before"
    )
    web.order("helmet", SERVES, is_served=True)
    healed = web.until(key, state=RUNNING)
    assert (healed.pid, healed.generation, healed.former_generation) == (before.pid, 3, 0)


def test_a_worker_is_deleted_also_on_a_disk_that_is_full(web: ScriptedWeb, node: Node) -> None:
    with small_disk(node.data, "3m"):
        key = web.order("helmet", SERVES, is_served=True)
        node.start()
        pid = web.until(key, state=RUNNING).pid
        fill(node.data)
        web.order("helmet", SERVES, is_served=True, padding="x" * (1 << 20))
        until(lambda: web.report.order_problem == "its disk is full")
        web.withdraw(key)
        until(lambda: web.orders[key].is_acknowledged and web.worker(key) is None)
        assert not is_alive(pid)
        assert node.rows("orders") == 0
        node.close()


def fill(folder: Path) -> Path:
    """Takes all the room of its disk. Returns the file to be deleted."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return ballast


def test_no_report_that_was_accepted_is_lost_on_a_disk_that_is_full(web: ScriptedWeb, node: Node) -> None:
    """The rest is refused, so that its worker keeps it; and the web hears why."""

    def send(body: bytes) -> httpx.Response:
        return node.http.post("/send", params={"path": "/told/a"}, content=body)

    with small_disk(node.data, "3m"):
        web.order("helmet", SLEEPS)
        node.start()
        until(node.workers)
        reports = [b"%d %s" % (number, b"x" * 50_000) for number in range(10)]
        web.answers[reports[0]] = 503  # and what is behind it waits, too
        answers = {reports[0]: send(reports[0])}
        ballast = fill(node.data)
        answers |= {report: send(report) for report in reports[1:]}
        refused = [answer for answer in answers.values() if answer.status_code != 200]
        assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(507, "REPORT_NOT_STORED")}
        until(lambda: web.report.report_problem == "its disk is full")
        web.posts.clear()
        del web.answers[reports[0]]
        answers[b"another"] = send(b"another")
        accepted = [report for report, answer in answers.items() if answer.status_code == 200]
        until(lambda: node.rows("outbox") == 0)
        bodies = [body for _, body in web.posts]
        refused_at_first = bodies.count(reports[0]) - 1  # it may have been sent once more before it was accepted
        assert bodies[refused_at_first:] == accepted
        ballast.unlink()
        assert send(b"room").status_code == 200
        until(lambda: web.posts[-1][1] == b"room" and web.report.report_problem == "")
        assert len(node.workers()) == 1
        node.close()


def test_a_damaged_file_is_refused_and_fetched_again_until_it_is_right(web: ScriptedWeb, node: Node) -> None:
    digest, size = web.keep(b"right weights")
    web.blobs[digest] = b"wrong weights"
    key = web.order("helmet", "import os; print(open(os.environ['FILES']).read()); " + SLEEPS, files=[[digest, size]])
    node.start()
    assert web.until(key, state=FAILED).reason == "FileDamaged"
    assert node.workers() == []
    web.blobs[digest] = b"right weights"
    web.until(key, state=RUNNING)
    log = node.data / "logs" / "edge-helmet-uid-helm.log"
    assert until(log.read_text) == "right weights\n"


def test_a_fetch_is_taken_up_where_it_broke_off(web: ScriptedWeb, node: Node) -> None:
    digest, size = web.keep(b"0123456789" * 1000)
    web.breaks_at = 3000
    key = web.order("helmet", SLEEPS, files=[[digest, size]])
    node.start()
    web.until(key, state=RUNNING)
    assert web.ranges == ["", "bytes=3000-"]
    assert (node.data / "blobs" / digest).read_bytes() == b"0123456789" * 1000


def test_what_cannot_be_run_has_failed_with_its_reason_and_disturbs_no_other(web: ScriptedWeb, node: Node) -> None:
    contents: dict[str, dict[str, object]] = {
        "FileMissing": {"files": [["0" * 64, 10]]},
        "DiskFull": {"files": [["1" * 64, 1 << 60]]},
        "BadFile": {"files": [["../../agent.db", 10]]},
        "NotHere": {"refused": "Not on this machine."},
        "CannotStart": {"command": ["/nowhere/python"]},
        "InternalError": {"bug": "a bug"},
    }
    bad = {reason: web.order(reason.lower(), SLEEPS, **content) for reason, content in contents.items()}
    good = web.order("good", SLEEPS)
    node.start()
    for reason, key in bad.items():
        failed = web.until(key, state=FAILED)
        assert failed.reason == reason and failed.message
        assert reason != "NotHere" or failed.message == "Not on this machine. Elsewhere."
    web.until(good, state=RUNNING)
    for key in bad.values():
        web.withdraw(key)
    until(lambda: [worker.key for worker in web.report.workers] == [good])


def test_a_file_that_was_damaged_on_the_disk_is_fetched_anew(web: ScriptedWeb, node: Node) -> None:
    digest, size = web.keep(b"right weights")
    key = web.order("helmet", SLEEPS, files=[[digest, size]])
    node.start()
    web.until(key, state=RUNNING)
    node.end(signal.SIGINT)
    (node.data / "blobs" / digest).write_bytes(b"wrong weights")
    web.signs.clear()
    node.start()
    web.until(key, state=RUNNING)
    assert (node.data / "blobs" / digest).read_bytes() == b"right weights"


def test_an_order_for_what_this_node_does_not_know_has_failed(web: ScriptedWeb, node: Node) -> None:
    key = web.order("film", kind="films")
    node.start()
    assert web.until(key, state=FAILED).reason == "UnknownKind"


def test_an_order_whose_key_could_leave_its_folder_is_not_taken(web: ScriptedWeb, node: Node) -> None:
    bad, good = web.order("../../x", SLEEPS), web.order("good", SLEEPS)
    node.start()
    web.until(good, state=RUNNING)
    assert not web.orders[bad].is_acknowledged
    assert node.rows("orders") == 1
    assert "is no key of a worker" in node.log_text()


def test_reports_reach_the_web_in_order_after_it_was_away(web: ScriptedWeb, node: Node) -> None:
    node.start()
    until(lambda: web.signs)
    web.stop()
    for number in range(3):
        node.http.post("/send", params={"path": "/told/a"}, content=f"{number}")
        node.http.post("/send", params={"path": "/told/b", "replaces": "b"}, content=f"b{number}")
    node.end(signal.SIGKILL)
    node.start()
    web.answers[b"1"] = 404
    web.start()
    until(lambda: len(web.posts) == 4)
    assert [body for _, body in web.posts] == [b"0", b"1", b"2", b"b2"]
    until(lambda: node.rows("outbox") == 0)
    assert "refuses a report to /told/a" in node.log_text()


def test_a_report_that_the_web_stumbles_over_holds_no_other_up(web: ScriptedWeb, node: Node) -> None:
    web.answers[b"x"] = 500
    node.start()
    for body in ("x", "y"):
        node.http.post("/send", params={"path": "/told/a"}, content=body)
    until(lambda: node.rows("outbox") == 0)
    assert [body for _, body in web.posts] == [b"x", b"y"]


def test_an_answer_that_may_change_is_waited_for(web: ScriptedWeb, node: Node) -> None:
    web.answers[b"x"] = 503
    node.start()
    node.http.post("/send", params={"path": "/told/a"}, content="x")
    until(lambda: len(web.posts) >= 2)
    del web.answers[b"x"]
    until(lambda: node.rows("outbox") == 0)


def test_the_long_poll_takes_over_where_sockets_are_refused(web: ScriptedWeb, node: Node) -> None:
    web.has_sockets = False
    key = web.order("helmet", SLEEPS)
    node.start()
    worker = web.until(key, state=RUNNING)
    assert web.by == {"poll"}
    web.withdraw(key)
    until(lambda: web.worker(key) is None)
    assert not is_alive(worker.pid)


@pytest.mark.slow
def test_the_long_poll_takes_over_where_sockets_do_not_live(web: ScriptedWeb, node: Node) -> None:
    web.closes_sockets = True
    key = web.order("helmet", SLEEPS)
    node.start()
    web.until(key, state=RUNNING)
    assert web.by == {"socket", "poll"}


def test_the_first_sign_of_a_connection_says_what_is_known(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SLEEPS)
    node.start()
    web.until(key, state=RUNNING)
    assert web.signs[0].order_seqs is None or web.signs[0].order_seqs == {}
    node.end()
    web.signs.clear()
    node.start()
    until(lambda: [sign for sign in web.signs if sign.order_seqs is not None])
    assert [sign.order_seqs for sign in web.signs if sign.order_seqs is not None] == [{str(key): 1}]


def test_what_is_known_is_run_while_the_web_is_away(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SERVES, is_served=True)
    node.start()
    web.until(key, state=RUNNING)
    node.end(signal.SIGINT)
    assert node.workers() == []
    web.stop()
    node.start()
    until(lambda: node.workers() and "Nothing answers at" in node.log_text())
    time.sleep(1.5)  # it has tried again meanwhile
    assert node.log_text().count("Nothing answers at") == 1


def test_what_a_worker_says_of_itself_is_reported(web: ScriptedWeb, node: Node) -> None:
    key = web.order("quiet", SLEEPS, is_served=True)
    node.start()
    web.until(key, state=WorkerState.STARTING)
    answer = node.http.post("/workers/quiet-edge-worker", json={"runtime": "onnx"})
    assert answer.json() == {"name": "quiet"}
    assert web.until(key, state=RUNNING).detail == {"runtime": "onnx"}
    assert node.http.post("/workers/nobody", json={}).status_code == 404


def test_an_agent_at_an_address_of_the_lan_hears_its_own_workers(tmp_path: Path, web: ScriptedWeb) -> None:
    address, *others = lan_addresses()
    node = Node(tmp_path, web.url, host=address)
    try:
        key = web.order("helmet", TELLS)
        node.start()
        assert web.until(key, detail={"status": 200})
        for other in others:  # what comes from elsewhere, be it from the same machine, needs the node's token
            with httpx.Client(transport=httpx.HTTPTransport(local_address=other), trust_env=False) as http:
                assert http.get(f"http://{address}:{node.port}/healthz").status_code == 401
    finally:
        node.close()


def test_workers_are_told_no_token_of_ours(web: ScriptedWeb, node: Node) -> None:
    key = web.order("curious", f"import os; print(sorted(n for n in os.environ if 'TOKEN' in n)); {SLEEPS}")
    node.start("--token", TOKEN, MODELMILL_TOKEN="an administrator's", MODELMILL_NODE_TOKEN=TOKEN)
    web.until(key, state=RUNNING)
    log = node.data / "logs" / "edge-curious-uid-curi.log"
    assert until(log.read_text) == "[]\n"


# who it is
def test_a_node_registers_itself_and_keeps_its_token_for_itself(web: ScriptedWeb, node: Node) -> None:
    node.start()
    until(lambda: web.signs)
    assert web.is_registered
    node.end()
    web.lets_register = False
    web.signs.clear()
    node.start()
    until(lambda: web.signs)
    assert (node.data / "agent.db").stat().st_mode & 0o777 == 0o600


def test_a_node_whose_kept_token_is_unknown_registers_itself_anew(web: ScriptedWeb, node: Node) -> None:
    node.start()
    until(lambda: web.signs)
    node.end()
    web.token = "mn_edge0_" + "6" * 64
    web.signs.clear()
    node.start()
    until(lambda: web.signs)


def test_after_a_damaged_database_no_worker_runs_twice(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SLEEPS)
    node.start()
    pid = web.until(key, state=RUNNING).pid
    node.end()
    (node.data / "agent.db").write_bytes(b"no database" * 1000)
    web.repeat()
    web.signs.clear()
    node.start()
    web.until(key, state=RUNNING)
    assert not is_alive(pid)
    assert len(node.workers()) == 1


def test_a_damaged_database_is_put_aside_and_all_comes_back_from_the_web(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SLEEPS)
    node.start()
    web.until(key, state=RUNNING)
    node.end(signal.SIGINT)
    (node.data / "agent.db").write_bytes(b"no database" * 1000)
    web.repeat()  # as a web does that hears what the node lacks
    web.signs.clear()
    node.start()
    web.until(key, state=RUNNING)
    assert "damaged" in node.log_text()
    assert (node.data / "agent.db.damaged").exists()


def test_a_name_that_is_taken_is_said_and_can_be_taken_over(web: ScriptedWeb, node: Node) -> None:
    web.is_registered = True
    refusal = node.refused()
    assert "there is a node edge0 already" in refusal and "--replace" in refusal
    node.start("--replace")
    until(lambda: web.signs)


def test_a_token_that_is_refused_is_said(web: ScriptedWeb, node: Node) -> None:
    web.order("helmet", SLEEPS)
    assert "does not know this token" in node.refused("--token", "mn_edge0_" + "7" * 64)
    assert node.workers() == []


def test_a_machine_that_may_not_register_itself_is_told_how(web: ScriptedWeb, node: Node) -> None:
    web.lets_register = False
    assert "MODELMILL_TOKEN" in node.refused()


def test_the_token_of_another_node_is_noticed(web: ScriptedWeb, node: Node, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("mn_edge7_" + "5" * 64 + "\n")
    assert "that of the node edge7" in node.refused("--token-file", str(file))


def test_a_node_without_a_token_waits_for_the_web(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SLEEPS)
    web.stop()
    node.start()
    web.start()
    web.until(key, state=RUNNING)


def test_an_agent_whose_web_never_answers_can_be_interrupted(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node.url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        node.start(wait=False)
        connection = silent.accept()[0]
        assert node.end(signal.SIGINT) == 0
        connection.close()


def test_a_cpu_that_is_not_there_is_said(web: ScriptedWeb, node: Node) -> None:
    assert "lacks some of the CPUs [4000]" in node.refused("--cpus", "4000")


def test_workers_stay_on_the_cpus_that_were_given(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", SLEEPS)
    cpu = min(os.sched_getaffinity(0))
    node.start("--cpus", str(cpu))
    assert os.sched_getaffinity(web.until(key, state=RUNNING).pid) == {cpu}


def test_any_free_port_will_do_and_stays_the_same(web: ScriptedWeb, node: Node) -> None:
    key = web.order("helmet", "import os; print(os.environ['AGENT']); " + SLEEPS)
    node.start("--listen", "127.0.0.1:0", wait=False)
    before = web.until(key, state=RUNNING)
    node.end()
    web.signs.clear()
    node.start("--listen", "127.0.0.1:0", wait=False)
    assert web.until(key, state=RUNNING).pid == before.pid


def test_two_agents_do_not_share_a_folder(web: ScriptedWeb, node: Node) -> None:
    node.start()
    first = node.process
    refusal = node.refused("--listen", "127.0.0.1:0")
    assert "another agent runs in" in refusal
    node.process = first


def test_a_port_that_is_in_use_is_said(web: ScriptedWeb, node: Node, tmp_path: Path) -> None:
    assert "cannot listen on" in node.refused("--listen", f"127.0.0.1:{web.port}")


def test_the_agents_server_answers_no_browser(web: ScriptedWeb, node: Node) -> None:
    node.start()
    assert node.http.get("/healthz", headers={"Origin": "https://evil.example"}).status_code == 403
    assert node.http.get("/healthz").json()["node"] == "edge0"
