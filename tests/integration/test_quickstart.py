"""`modelmill up` with everything it starts, as a user meets it, and the script that installs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from app.kit.backoff import GrowingPause
from tests.harness.command_line import run
from tests.harness.migrated import migrated_file
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.processes import send, stop
from tests.harness.surroundings import MARK
from tests.harness.until import until

MODELMILL = Path(sys.executable).parent / "modelmill"
SAMPLE = REPOSITORY / "ops" / "samples" / "digits"
PAUSES = GrowingPause(first_s=0.05, longest_s=0.3)
"""Each look reads the environment of every process of this machine."""
pytestmark = pytest.mark.slow


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODELMILL_")}
    return {**kept, "COLUMNS": "200", **more}


def modelmill(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(*arguments, environment=environment())


def up_in_vain(*flags: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MODELMILL, "up", *map(str, flags)], capture_output=True, text=True, env=environment(), check=False
    )


class Up:
    """A `modelmill up` of our own."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        self.data_dir = data_dir
        self.temporary = data_dir.with_name("temporary")
        self.temporary.mkdir(exist_ok=True)
        ports = {"MODELMILL_SFTP_PORT": str(free_port())}  # two that start at once both find the usual one free
        self.process = subprocess.Popen(
            [MODELMILL, "up", "--port", "0", "--data-dir", str(data_dir), *flags],
            env=environment(**self._mark, **ports),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout
        first = self.process.stdout.readline()
        assert first.startswith("Modelmill is up at "), first + self.close()
        self.url = first.split()[4]

    def pids(self, *words: str) -> list[int]:
        """Its processes with these words on their command line, without subreapers if there are any words."""
        own = (pid for pid in _all_pids() if self._is_mine(pid))
        if not words:
            return list(own)
        lines = ((pid, _read(pid, "cmdline")) for pid in own)
        return sorted(pid for pid, line in lines if "subreaper" not in line and all(word in line for word in words))

    @property
    def _mark(self) -> dict[str, str]:
        """Of all that it starts, in whatever session: the sandbox passes the second on, but no variable of ours."""
        return {"TMPDIR": str(self.temporary), MARK: f"of {self.temporary}"}

    def _is_mine(self, pid: int) -> bool:
        """Told by its environment; Valkey writes its title over that, but works in our folder."""
        if f"{MARK}=of {self.temporary}" in _read(pid, "environ").split("\0"):
            return True
        try:
            return Path(f"/proc/{pid}/cwd").readlink().is_relative_to(self.data_dir)
        except OSError:
            return False

    def wait_for(self, *words: str, unlike: list[int]) -> list[int]:
        pids: list[int] = until(lambda: [pid for pid in self.pids(*words) if pid not in unlike], pauses=PAUSES)
        return pids

    @contextmanager
    def without_workers(self) -> Iterator[None]:
        """They stand still: what is submitted is not begun."""
        pids = self.pids("modelmill worker-")
        assert pids
        stop(pids)
        try:
            yield
        finally:
            send(pids, signal.SIGCONT)

    def wait_until_nothing_is_left(self) -> None:
        until(lambda: not self.pids(), pauses=PAUSES)

    def convert(self, out: Path) -> subprocess.CompletedProcess[str]:
        return modelmill("--url", self.url, "convert", SAMPLE / "digits.onnx", SAMPLE / "reference.zip", "-o", out)

    def close(self) -> str:
        assert self.process.stdout
        if self.process.stdout.closed:
            return ""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.communicate()[0]


def _all_pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_alive(entry):
            yield int(entry.name)


def _is_alive(entry: Path) -> bool:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    made: list[Up] = []

    def start(*flags: str) -> Up:
        made.append(Up(tmp_path / "data", *flags))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A `modelmill up` that goes on whatever the tests do to its parts, until SIGTERM ends all of them."""
    data = tmp_path_factory.mktemp("stack") / "data"
    migrated_file(data / "modelmill.db")
    one = Up(data)
    yield one
    one.process.terminate()
    one.process.wait()
    one.close()
    assert one.pids() == []


# --- from its start to its end ------------------------------------------------------------------------
def test_a_killed_supervisor_leaves_nothing_and_once_in_the_same_folder_converts_the_sample(up, tmp_path):
    killed = up("--workers", "onnx=1,bie=2,nef=0")
    assert len(killed.pids()) > 8
    logs = {path.name for path in (killed.data_dir / "run" / "logs").iterdir()}
    assert {"web.log", "control.log", "worker-0.log", "worker-1.log"} <= logs
    assert "worker-2.log" not in logs

    killed.process.kill()
    killed.process.wait()
    killed.wait_until_nothing_is_left()

    bystander = subprocess.Popen(["sleep", "1000"])
    once = up("--once")
    output, _ = once.process.communicate()

    assert once.process.returncode == 0
    assert f"out.nef lies in {tmp_path / 'data/sample/out.nef'}" in output
    assert "fp32" in output
    assert "int8" in output
    assert "Traceback" not in output
    assert (tmp_path / "data/sample/out.nef").stat().st_size > 0
    assert once.pids() == []
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


# --- while it runs ------------------------------------------------------------------------------------
def test_a_killed_worker_comes_back_and_works(stack, tmp_path):
    before = stack.wait_for("modelmill worker-0", unlike=[])

    os.kill(before[0], signal.SIGKILL)
    after = stack.wait_for("modelmill worker-0", unlike=before)

    assert stack.convert(tmp_path / "out").returncode == 0
    assert stack.pids("modelmill worker-0") == after


@pytest.mark.exhaustive  # tests of the embedded parts show what follows
def test_the_process_that_all_are_forked_from_may_be_killed(stack, tmp_path):
    """What runs runs on; what ends afterwards is forked from another one."""
    [parent] = stack.pids("modelmill preloaded")
    [worker] = stack.pids("modelmill worker-0")

    os.kill(parent, signal.SIGKILL)
    assert stack.convert(tmp_path / "one").returncode == 0
    assert stack.pids("modelmill worker-0") == [worker]

    os.kill(worker, signal.SIGKILL)
    stack.wait_for("modelmill worker-0", unlike=[worker])
    assert stack.convert(tmp_path / "two").returncode == 0


def test_a_killed_valkey_comes_back_and_the_stack_works_on(stack, tmp_path):
    [before] = stack.pids("valkey-server")

    os.kill(before, signal.SIGKILL)
    stack.wait_for("valkey-server", unlike=[before])

    assert stack.convert(tmp_path / "out").returncode == 0


def test_a_stranger_on_this_machine_cannot_use_the_valkey(stack):
    config = (stack.data_dir / "run" / "valkey" / "valkey.conf").read_text()
    port = int(config.split("\nport ")[1].split()[0])

    with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    assert "requirepass" not in "".join(_read(pid, "cmdline") for pid in stack.pids())


def test_who_signs_nothing_does_not_hold_the_key(stack):
    """Nor does anybody see in /proc what a part is told: it is told once it is there."""
    for words in ("web", "control", "worker-0", "sftp", "preloaded", "up"):
        pids = stack.pids(f"modelmill {words}")
        assert pids, words
        assert not any("MODELMILL_SECRET_KEY=" in _read(pid, "environ") for pid in pids), words


def test_a_second_one_in_the_same_folder_is_told_of_the_first(stack):
    second = up_in_vain("--port", "0", "--data-dir", stack.data_dir)

    assert second.returncode == 2
    assert f"already runs in {stack.data_dir} (process {stack.process.pid}, {stack.url})" in second.stderr
    assert "Traceback" not in second.stderr
    assert stack.process.poll() is None


@pytest.mark.exhaustive  # the data folder's own tests show it, and the test above the exit code
def test_a_taken_port_is_one_clear_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = up_in_vain("--port", str(port), "--data-dir", tmp_path)

    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive  # the data folder's own tests show it, and the test above the exit code
def test_a_data_folder_that_cannot_be_written_is_one_clear_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = up_in_vain("--port", "0", "--data-dir", tmp_path / "file" / "data")

    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


# --- jobs on the command line -------------------------------------------------------------------------
def jobs_named(url: str, name: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(modelmill("jobs", "list", "-q", name, "--url", url, "--json").stdout)
    return jobs


def test_jobs_can_be_listed_shown_read_and_downloaded(stack, tmp_path):
    files = (SAMPLE / "digits.onnx", SAMPLE / "reference.zip")
    named = ("--name", "listed")
    converted = modelmill("--url", stack.url, "convert", *files, *named, "-o", tmp_path, "--json")
    job_id = json.loads(converted.stdout)["job"]["job_id"]

    assert [record["job_id"] for record in jobs_named(stack.url, "listed")] == [job_id]
    assert "COMPLETED" in modelmill("jobs", "show", job_id[:6], "--url", stack.url).stdout
    assert "SNR" in modelmill("jobs", "logs", job_id[:6], "bie", "-f", "--url", stack.url).stdout
    downloaded = modelmill("jobs", "download", job_id[:6], "out.nef", "-o", tmp_path / "again", "--url", stack.url)
    assert downloaded.returncode == 0
    assert (tmp_path / "again" / "out.nef").read_bytes() == (tmp_path / "out.nef").read_bytes()
    assert modelmill("jobs", "cancel", job_id, "--url", stack.url).returncode == 2
    assert modelmill("jobs", "show", "ffffffff", "--url", stack.url).returncode == 4


def test_ctrl_c_while_converting_cancels_the_job(stack, tmp_path):
    with stack.without_workers():
        convert = subprocess.Popen(
            [
                MODELMILL,
                "--url",
                stack.url,
                "convert",
                SAMPLE / "digits.onnx",
                SAMPLE / "reference.zip",
                "--name",
                "interrupted",
                "-o",
                tmp_path,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        assert convert.stdout
        assert any("queued" in line for line in convert.stdout)

        convert.send_signal(signal.SIGINT)
        output, _ = convert.communicate()

    assert convert.returncode == 130
    assert "is cancelled" in output
    [record] = jobs_named(stack.url, "interrupted")
    assert record["error"]["code"] == "CANCELLED"


@pytest.mark.exhaustive  # the tests of the command show it
def test_bad_input_is_told_with_what_to_do(stack, tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_text("version https://git-lfs.github.com/spec/v1\n")
    done = modelmill("--url", stack.url, "convert", bad, SAMPLE / "reference.zip", "-o", tmp_path)

    assert done.returncode == 2
    assert "git lfs pull" in done.stderr.lower() or "lfs" in done.stderr.lower()


# --- ops/quickstart, on a machine made of stand-ins -------------------------------------------------
RECORDING_PYTHON = '#!/bin/sh\necho "$*" >> "{log}"\n'
ECHOING_MODELMILL = '#!/bin/sh\necho "data $MODELMILL_DATA_DIR"\necho "$*"\n'
NEEDED = ("bash", "sh", "dirname", "cat", "grep", "sha256sum", "mktemp", "tail", "rm", "printf", "env")


class Machine:
    """A clone of what quickstart reads, and a PATH with nothing but what is put there."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.bin = folder / "clone", folder / "bin"
        (self.clone / "ops").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("quickstart", "lib.sh", "requirements.lock"):
            shutil.copy(REPOSITORY / "ops" / name, self.clone / "ops" / name)
        shutil.copy(REPOSITORY / "pyproject.toml", self.clone)
        for name in NEEDED:
            path = shutil.which(name)
            assert path
            (self.bin / name).symlink_to(path)
        self.script("bin/id", "#!/bin/sh\necho 1000\n")

    def script(self, name: str, text: str) -> None:
        path = self.bin.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def quickstart(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.clone / "ops" / "quickstart", *flags],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            env={"PATH": str(self.bin), "HOME": str(self.clone)},
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_quickstart_without_a_new_enough_python_says_so(machine):
    machine.script("bin/python3", "#!/bin/sh\nexit 1\n")
    done = machine.quickstart()
    assert done.returncode == 2
    assert done.stderr.startswith("Python 3.11 or newer is needed")
    assert done.stderr.count("\n") == 1


def test_quickstart_without_the_venv_module_names_the_package(machine):
    machine.script("bin/python3", '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    done = machine.quickstart()
    assert done.returncode == 2
    assert "apt-get install python3-venv" in done.stderr


def test_quickstart_installs_once_and_passes_flags_on(machine, tmp_path):
    log = tmp_path / "calls"
    machine.script("clone/.venv/bin/python", RECORDING_PYTHON.format(log=log))
    machine.script("clone/.venv/bin/modelmill", ECHOING_MODELMILL)

    first = machine.quickstart("--once")
    assert first.returncode == 0, first.stderr
    assert log.read_text().count("-m pip install") == 2
    second = machine.quickstart("--once", "--port", "9000")

    assert log.read_text().count("-m pip install") == 2
    assert second.stdout.splitlines() == [f"data {machine.clone}/.modelmill", "up --sample --once --port 9000"]


def test_quickstart_installs_again_when_the_pins_have_changed(machine, tmp_path):
    log = tmp_path / "calls"
    machine.script("clone/.venv/bin/python", RECORDING_PYTHON.format(log=log))
    machine.script("clone/.venv/bin/modelmill", ECHOING_MODELMILL)
    machine.quickstart()
    with (machine.clone / "ops" / "requirements.lock").open("a") as lock:
        lock.write("another==1.0\n")

    machine.quickstart()

    assert log.read_text().count("-m pip install") == 4


def test_quickstart_tells_why_an_installation_failed(machine):
    machine.script("clone/.venv/bin/python", '#!/bin/sh\n[ "$2" != pip ] || { echo "no route to host"; exit 1; }\n')
    done = machine.quickstart()
    assert done.returncode == 2
    assert "no route to host" in done.stderr
