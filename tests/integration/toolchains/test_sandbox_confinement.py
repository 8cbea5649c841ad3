"""Hostile code in the sandbox's child: what it tries is refused, wherever this kernel offers the means."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.kit.sandbox import kernel, landlock, namespaces, seccomp
from app.kit.sandbox.capabilities import confinement
from app.kit.sandbox.runner import Limits, Sandbox
from tests.harness.hostile_targets import DONE

LIMITS = Limits(memory_bytes=1 << 30, time_s=60, threads=1)
GIVEN = namespaces.available()
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, or it is off")
needs_filter = pytest.mark.skipif(kernel.MACHINE not in seccomp.MACHINES, reason="no filter for this machine")
needs_processes = pytest.mark.skipif(
    not GIVEN & namespaces.PROCESSES, reason="no namespaces of users and processes are to be had here"
)
Attack = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A file of another job, whose folder lies beside the child's."""
    file = tmp_path / "another-job" / "model.onnx"
    file.parent.mkdir()
    file.write_text("secret weights")
    return file


@pytest.fixture
def attack(sandbox: Sandbox, tmp_path: Path) -> Attack:
    work = tmp_path / "job"
    work.mkdir()

    def run(name: str, **request: Any) -> dict[str, str]:
        result: dict[str, str] = sandbox.run(
            f"tests.harness.hostile_targets:{name}", request, work_dir=work, limits=LIMITS
        ).result
        assert result
        return result

    return run


def succeeded(result: dict[str, str]) -> list[str]:
    return [name for name, end in result.items() if end == DONE]


@needs_filter
def test_it_can_call_nobody(attack: Attack, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as named:
        named.bind(str(tmp_path / "job" / "socket"))
        named.listen()
        result = attack("call_out", port=listener.getsockname()[1], path=str(tmp_path / "job" / "socket"))
    assert not succeeded(result)
    assert all(end.startswith("PermissionError") for end in result.values()), result


@needs_landlock
def test_it_reads_neither_another_job_nor_what_is_the_machines(attack: Attack, others: Path) -> None:
    result = attack("read_others", file=str(others))
    assert not succeeded(result)
    assert "Permission denied" in result["by a program"]


def test_a_link_to_another_job_is_not_there_for_the_worker(attack: Attack, others: Path, tmp_path: Path) -> None:
    attack("read_others", file=str(others))
    assert list((tmp_path / "job").iterdir()) == [tmp_path / "job" / ".tmp"]


@needs_landlock
def test_data_beside_a_program_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "site-packages"
    (library / "data").mkdir(parents=True)
    (library / "data" / "secret").write_text("kept")
    (library / "csv_of_ours.py").write_text("")
    (tmp_path / "job").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(library))
    confined = Sandbox(keep_out=[library / "data"])
    try:
        result = confined.run(
            "tests.harness.hostile_targets:read_others",
            {"file": str(library / "data" / "secret")},
            work_dir=tmp_path / "job",
            limits=LIMITS,
        ).result
        seen = confined.run(
            "tests.harness.hostile_targets:load", {"module": "csv_of_ours"}, work_dir=tmp_path / "job", limits=LIMITS
        ).result
    finally:
        confined.close()
    assert not succeeded(result)
    assert succeeded(seen) == ["csv_of_ours"]


@needs_landlock
def test_it_changes_nothing_but_its_own_folder(attack: Attack, others: Path) -> None:
    library = Path(json.__file__)
    size_bytes = library.stat().st_size
    assert not succeeded(attack("change_others", file=str(others), library=str(library)))
    assert [path.name for path in others.parent.iterdir()] == ["model.onnx"]
    assert others.read_text() == "secret weights"
    assert library.stat().st_size == size_bytes


@needs_processes
def test_it_changes_no_mode_and_no_time_outside(attack: Attack, others: Path) -> None:
    others.chmod(0o600)
    assert not succeeded(attack("change_modes", file=str(others)))
    assert others.stat().st_mode & 0o777 == 0o600


@needs_processes
def test_it_meets_neither_its_worker_nor_the_fork_server(attack: Attack, sandbox: Sandbox) -> None:
    attack("compute")
    assert sandbox._server
    result = attack("meet_processes", pids=[os.getpid(), sandbox._server.pid])
    assert not succeeded(result)


def test_no_right_is_left_to_it_nor_to_what_it_starts(attack: Attack) -> None:
    """Also where it runs as root, of this machine or of its own namespace."""
    for status in attack("rights").values():
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert facts["NoNewPrivs"].strip() == "1"
        assert {int(facts[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}


@needs_filter
def test_it_cannot_make_the_calls_that_a_computation_never_makes(attack: Attack) -> None:
    result = attack("call_the_kernel")
    assert not succeeded(result)
    clone3 = result.pop("clone3")
    assert "Function not implemented" in clone3, "libraries fall back to clone only then"
    assert all(end.startswith("PermissionError") for end in result.values()), result


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux has no unshare here")
def test_namespaces_are_had_wherever_another_program_has_them() -> None:
    flags = ("--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--mount-proc")
    had = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0
    assert GIVEN == namespaces.ALL or not had


def test_what_honest_tools_do_works(attack: Attack) -> None:
    result = attack("compute")
    assert result.pop("its place") == "True"
    assert len(succeeded(result)) == len(result), result


@needs_processes
def test_processes_of_a_tool_can_share_memory(attack: Attack) -> None:
    assert succeeded(attack("share_memory")) == ["pool"]


@needs_landlock
@needs_filter
@needs_processes
def test_health_tells_of_all_four_parts(sandbox: Sandbox) -> None:
    assert confinement(sandbox) == dict.fromkeys(("files", "network", "processes", "system calls"), True)
    ended = subprocess.run(
        [sys.executable, "-m", "app.cli.main", "health", "sandbox"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "The sandbox holds files, network, processes, system calls.\n"


WITHOUT = """
import sys
from dataclasses import replace
from app.kit.sandbox import kernel, landlock, seccomp
machine = seccomp.MACHINES[kernel.MACHINE]
unshare = (seccomp.X86_64 if kernel.MACHINE == "x86_64" else seccomp.AARCH64)["unshare"]
seccomp.MACHINES[kernel.MACHINE] = replace(machine, denied=(landlock.CREATE_RULESET, unshare))
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
assert seccomp.restrict()
seccomp.MACHINES[kernel.MACHINE] = machine
sys.argv = ["modelmill", *sys.argv[1:]]
from app.cli.main import main
sys.exit(main())
"""


@needs_filter
def test_in_a_container_that_refuses_landlock_and_namespaces_it_works_and_health_says_what_is_missing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, "health", "sandbox"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    assert "the sandbox holds network, system calls, but not files (it takes Landlock); processes" in ended.stderr
