"""ops/ray-local as a user meets it: what it starts, what it says, and that it ends exactly that."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.training.gateway import RayStatus, Submission
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from ops import ray_local
from ops.ray_run import RunFolder, began
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_ports
from tests.harness.processes import with_descendants
from tests.harness.ray_cluster import RayCluster, is_raylet
from tests.harness.training.ray_jobs import EVERY_CALL, ON_WORKER, reaching, unreachable
from tests.harness.until import until
from tests.harness.variants import exhaustive

pytestmark = [pytest.mark.slow]


class Local:
    """A Ray of `ops/ray-local` in a data folder of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.folder = RunFolder(data)
        self.port, self.gcs_port = free_ports(2)
        self.may_run = False

    def run(self, verb: str, *flags: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MODELMILL_")}
        return subprocess.run(
            [sys.executable, "-m", "ops.ray_local", verb, "--data", self.data, *flags],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,  # it waits up to 120 s for each node itself, and starts a Ray that gave itself up once more
            cwd="/",
            env={**kept, "PYTHONPATH": str(REPOSITORY)},
        )

    def start(self, *flags: str) -> subprocess.CompletedProcess[str]:
        self.may_run = True
        return self.run("start", "--port", str(self.port), "--gcs-port", str(self.gcs_port), "--cpus", "4", *flags)

    def pids(self) -> list[int]:
        known = self.folder.read()
        assert known is not None
        return list(with_descendants(node.pid for node in known.nodes))

    def close(self) -> None:
        if self.may_run:
            self.run("stop")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path)
    yield made
    made.close()


def options(text: str) -> RayOptions:
    settings = dict(line.removeprefix("export MODELMILL_").split("=", 1) for line in text.splitlines())
    return RayOptions(settings["RAY_ADDRESS"], settings["RAY_GCS_ADDRESS"], settings["RAY_TOKEN"], timeout_s=60)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Local, str]]:
    """One that runs, until a test stops it, and what it has printed."""
    made = Local(tmp_path_factory.mktemp("started"))
    done = made.start("--gpus", "2")
    assert done.returncode == 0, done.stderr
    yield made, done.stdout
    made.close()


@pytest.mark.ray
@pytest.mark.parametrize("token", [pytest.param("a-token-of-another-cluster", id="wrong"), *exhaustive("", ids="none")])
@pytest.mark.parametrize("call", ["submit", *exhaustive("job", "nodes")])
def test_without_the_token_of_the_cluster_the_gateway_says_so(started: tuple[Local, str], token: str, call: str):
    _, printed = started
    gateway = RayGateway(replace(options(printed), token=token))
    assert "MODELMILL_RAY_TOKEN" in unreachable(lambda: EVERY_CALL[call](gateway)).hint
    gateway.close()


@pytest.mark.ray
def test_what_it_prints_leads_to_a_ray_that_runs_jobs_and_ends_with_them_and_nothing_else(
    started: tuple[Local, str], ray_cluster: RayCluster
):
    local, printed = started
    gateway = RayGateway(options(printed))
    nodes = {node.may_train: (node.total_gpus, node.total_cpus) for node in gateway.nodes()}
    assert nodes == {False: (0, 0), True: (2, 4)}
    again = local.start()
    assert (again.returncode, again.stdout) == (0, printed)
    assert "runs already" in again.stderr
    assert "2 of 2 GPUs" in local.run("status").stderr
    assert_token_is_private(local)

    lines = "print('lies in', tempfile.gettempdir()); print('pid', os.getpid(), flush=True); time.sleep(1000)"
    program = f'python3 -c "import os, tempfile, time; {lines}"'
    gateway.submit(Submission("held--a01", program, resources=ON_WORKER))
    job = reaching(gateway, "held--a01", RayStatus.RUNNING)
    printed_pid = re.compile(rb"^pid (\d+)$", re.MULTILINE)
    log = until(lambda: gateway.log_tail(job, 50), printed_pid.search)
    held = int(printed_pid.findall(log)[-1])
    pids = local.pids()
    assert held in pids
    known = local.folder.read()
    assert known and f"lies in {known.temporary}".encode() in log
    gateway.close()
    stopped = local.run("stop")

    assert (stopped.returncode, stopped.stderr) == (0, "Ray is stopped.\n")
    assert [pid for pid in pids if began(pid)] == []
    assert not Path(known.temporary).exists()
    assert local.run("status").returncode == 3
    with_others = RayGateway(ray_cluster.options())
    assert len(with_others.nodes()) == 3
    with_others.close()


def assert_token_is_private(local: Local) -> None:
    assert stat.S_IMODE(local.folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((local.folder.path / "cluster.json").stat().st_mode) == 0o600
    token = json.loads((local.folder.path / "cluster.json").read_text())["token"]
    assert not any(token in Path(f"/proc/{pid}/cmdline").read_text() for pid in local.pids() if began(pid))


@pytest.mark.exhaustive
@pytest.mark.ray
def test_after_a_node_was_killed_it_says_so_and_starts_anew(local):
    first = local.start()
    assert first.returncode == 0
    [raylet] = [pid for pid in with_descendants([local.folder.read().nodes[1].pid]) if is_raylet(pid, "")]
    before = local.pids()
    os.kill(raylet, signal.SIGKILL)
    until(lambda: local.run("status"), lambda done: done.returncode == 3)

    assert local.start().stdout == first.stdout, "whoever was told of it need not be told again"

    assert local.run("status").returncode == 0
    assert [pid for pid in before if began(pid)] == []


def test_its_token_outlives_a_stop_and_is_its_owners_alone(local):
    with local.folder.locked():
        token = local.folder.token()
        local.folder.forget()
        assert local.folder.token() == token
    assert len(token) >= 24
    assert stat.S_IMODE((local.folder.path / "token").stat().st_mode) == 0o600


def test_a_process_that_got_the_number_of_one_of_ours_is_left_alone(local):
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        local.folder.path.mkdir(parents=True)
        nodes = [{"pid": bystander.pid, "began": "another boot 1"}]
        stale = {"dashboard_port": 1, "gcs_port": 2, "token": "t", "temporary": str(local.data / "old"), "nodes": nodes}
        (local.folder.path / "cluster.json").write_text(json.dumps(stale))

        stopped = local.run("stop")

        assert (stopped.returncode, "does not run here" in stopped.stderr) == (0, True)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"nodes": 1}'])
def test_what_is_remembered_may_be_damaged(tmp_path, kept):
    folder = RunFolder(tmp_path).path
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text(kept)
    assert ray_local.main(["stop", "--data", str(tmp_path)]) == 0
    assert ray_local.main(["status", "--data", str(tmp_path)]) == ray_local.NOT_RUNNING


@pytest.mark.parametrize("flag", ["--port", *exhaustive("--gcs-port")])
def test_a_taken_port_is_one_clear_sentence_and_nothing_is_started(local, flag):
    with socket.create_server(("127.0.0.1", local.port if flag == "--port" else local.gcs_port)):
        done = local.start()
    assert done.returncode == 2
    assert "is taken" in done.stderr
    assert f"{flag} PORT" in done.stderr
    assert local.folder.read() is None


# --- the script itself, on a machine made of stand-ins ----------------------------------------------
@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What it reads of the repository, and a virtual environment whose Python writes down what it is asked."""
    folder = tmp_path / "clone"
    (folder / "ops").mkdir(parents=True)
    names = ("ray-local", "lib.sh", "requirements.lock", "requirements-test.lock", "requirements-train.lock")
    for name in names:
        shutil.copy(REPOSITORY / "ops" / name, folder / "ops" / name)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\n')
    python.chmod(0o755)
    return folder


def script(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [clone / "ops" / "ray-local", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def calls(clone: Path) -> list[str]:
    return [line for line in (clone / "calls").read_text().splitlines() if not line.startswith("-c ")]


def test_ray_is_installed_once_as_pinned_and_pytorch_when_the_sample_is_wanted(clone):
    assert script(clone, "start", "--gpus", "8").returncode == 0
    first = calls(clone)
    assert first[-2].startswith("-m pip install")
    assert "-c " + str(clone / "ops/requirements-train.lock") in first[-2]
    assert first[-2].endswith(" ray[default]")
    assert first[-1] == "-m ops.ray_local start --gpus 8"

    assert script(clone, "start").returncode == 0
    assert calls(clone)[len(first) :] == ["-m ops.ray_local start"]

    assert script(clone, "start", "--sample").returncode == 0
    assert calls(clone)[-2].endswith(" ray[default] torch scikit-learn")
    assert calls(clone)[-1] == "-m ops.ray_local start"


@pytest.mark.parametrize(("verb", "code"), [("stop", 0), ("status", 3)])
def test_where_ray_is_not_installed_nothing_is_installed_to_stop_it(clone, verb, code):
    done = script(clone, verb)
    assert (done.returncode, (clone / "calls").exists()) == (code, False)
    assert "not installed" in done.stderr


def test_it_is_a_mistake_to_say_nothing_and_help_is_help(clone):
    assert script(clone).returncode == 2
    helped = script(clone, "--help")
    assert helped.returncode == 0
    assert "PIP_EXTRA_INDEX_URL" in helped.stdout
