"""The systemd units, as the installer puts them in place: verified by systemd itself, hardened, stopped in order."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.deployment_files import DEPLOY, STAGES, SYSTEMD, unit
from tests.harness.paths import REPOSITORY

INSTALLER = DEPLOY / "install-systemd"
COMMANDS = ("dramatiq", "modelmill", "periodiq", "uvicorn")
TOOLS = ("systemctl", "systemd-analyze")
COMMON = unit(SYSTEMD / "modelmill-.service.d" / "common.conf")["Service"]
EXPOSURE_TENTHS = 20
"""What systemd calls OK; an unhardened service has 96."""


def install(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(INSTALLER), "--root", str(root), "--no-packages", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def enabled(root: Path) -> set[str]:
    return {path.name for path in (root / "etc/systemd/system/modelmill.target.wants").iterdir()}


@pytest.fixture(scope="module", autouse=True)
def systemd() -> None:
    """Skips where its tools are not installed, but fails in CI."""
    if not all(map(shutil.which, TOOLS)):
        missing = "There is no systemd: apt-get install --no-install-recommends systemd"
        assert not os.environ.get("CI"), missing
        pytest.skip(missing)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation, with programs where the packages would have put theirs."""
    folder = tmp_path_factory.mktemp("root")
    done = install(folder, "--onnx", "1", "--bie", "2", "--nef", "1", "--training", "--node")
    assert done.returncode == 0, done.stderr
    programs = folder / "opt/modelmill/.venv/bin"
    programs.mkdir(parents=True)
    for path in (*(programs / name for name in COMMANDS), folder / "opt/modelmill/redis-server"):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    vendor = folder / "usr/lib/systemd/system"
    vendor.mkdir(parents=True)
    for target in Path("/usr/lib/systemd/system").glob("*.target"):
        shutil.copy(target, vendor / target.name, follow_symlinks=True)
    return folder


def analyze(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", f"--root={root}", "--man=no", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_units_of_the_minimum_deployment_are_enabled(root: Path) -> None:
    workers = {"modelmill-onnx@1.service", "modelmill-bie@1.service", "modelmill-bie@2.service"}
    names = ("redis", "scheduler", "controller", "pulse", "web", "sftp", "training", "node", "nef@1")
    rest = {f"modelmill-{name}.service" for name in names}
    assert enabled(root) == workers | rest


def test_systemd_verifies_every_unit(root: Path) -> None:
    done = analyze(root, "verify", "modelmill.target", *sorted(enabled(root)))
    assert (done.returncode, done.stderr) == (0, "")


def test_verifying_would_find_a_fault(root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "root"
    shutil.copytree(root, broken, symlinks=True)
    path = broken / "etc/systemd/system/modelmill-web.service"
    path.write_text(path.read_text().replace("TimeoutStopSec=", "TimeoutStop="))
    assert "TimeoutStop" in analyze(broken, "verify", "modelmill-web.service").stderr


def test_systemd_calls_no_service_exposed(root: Path) -> None:
    for name in sorted(enabled(root)):
        done = analyze(root, "security", "--offline=true", f"--threshold={EXPOSURE_TENTHS}", name)
        assert done.returncode == 0, done.stdout[-300:]


def test_the_sandbox_may_hold_its_children_to_their_files() -> None:
    words = (SYSTEMD / "modelmill-.service.d" / "common.conf").read_text().split()
    allowed = {word.partition("=")[2] or word for word in words}
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= allowed


def test_each_stage_has_workers_of_its_own_queue(root: Path) -> None:
    for stage in STAGES:
        installed = (root / f"etc/systemd/system/modelmill-{stage}@.service").read_text()
        assert "--queues %j " in installed  # the last part of the unit's prefix
        assert installed == (SYSTEMD / "modelmill-worker@.service").read_text()


def test_a_stop_is_sent_to_the_master_alone_and_every_end_is_followed_by_a_start() -> None:
    assert COMMON["KillMode"] == "mixed"
    assert COMMON["Restart"] == "always"
    for path in SYSTEMD.glob("*.service"):
        if path.name == "modelmill-node.service":  # its workers outlive it
            assert unit(path)["Service"]["KillMode"] == "process"
        else:
            assert "KillMode" not in unit(path)["Service"], path.name
        assert "TimeoutStopSec" in unit(path)["Service"], path.name


def test_the_number_of_workers_can_be_changed_and_settings_and_secrets_stay(tmp_path: Path) -> None:
    assert install(tmp_path, "--bie", "3").returncode == 0
    settings = tmp_path / "etc/modelmill/modelmill.env"
    settings.write_text("MODELMILL_PORT=9999\n")
    secret = (tmp_path / "etc/modelmill/secrets/secret_key").read_text()
    assert install(tmp_path, "--bie", "1", "--nef", "0").returncode == 0
    assert {name for name in enabled(tmp_path) if "@" in name} == {
        "modelmill-onnx@1.service",
        "modelmill-bie@1.service",
    }
    assert settings.read_text() == "MODELMILL_PORT=9999\n"
    assert (tmp_path / "etc/modelmill/secrets/secret_key").read_text() == secret


def test_secrets_are_for_root_only_and_differ_between_installations(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert install(tmp_path / name).returncode == 0
    one, two = (tmp_path / name / "etc/modelmill/secrets" for name in ("one", "two"))
    assert one.stat().st_mode & 0o777 == 0o700
    names = sorted(path.name for path in one.iterdir())
    assert names == ["redis.conf", "redis_url", "secret_key"]
    for name in names:
        assert (one / name).stat().st_mode & 0o777 == 0o600
        assert (one / name).read_text() != (two / name).read_text()
    password = (one / "redis.conf").read_text().removeprefix("requirepass ")
    assert f":{password}@" in (one / "redis_url").read_text()


def test_a_node_has_its_agent_where_the_operator_says_so(tmp_path: Path) -> None:
    assert install(tmp_path).returncode == 0
    assert "modelmill-node.service" not in enabled(tmp_path)
    assert install(tmp_path, "--node").returncode == 0
    assert "modelmill-node.service" in enabled(tmp_path)
    assert "NODE_ARGUMENTS=--name edge0" in (tmp_path / "etc/modelmill/node.env").read_text()


def test_a_machine_at_the_edge_has_the_agent_and_nothing_else(tmp_path: Path) -> None:
    done = install(tmp_path, "--node", "--workers-only", "--onnx", "0", "--bie", "0", "--nef", "0")
    assert done.returncode == 0, done.stderr
    assert enabled(tmp_path) == {"modelmill-node.service"}
    assert install(tmp_path, "--node", "--workers-only").returncode != 0, "workers need a Redis"


def test_training_is_scheduled_where_the_operator_says_so(tmp_path: Path) -> None:
    assert install(tmp_path).returncode == 0
    assert "modelmill-training.service" not in enabled(tmp_path)
    assert install(tmp_path, "--training").returncode == 0
    assert "modelmill-training.service" in enabled(tmp_path)
    assert (tmp_path / "opt/modelmill/ops/requirements-train.lock").is_file()


def test_a_further_host_has_workers_only(tmp_path: Path) -> None:
    arguments = (
        "--workers-only",
        "--redis-url",
        "redis://:word@cloud:6379/0",
        "--onnx",
        "0",
        "--bie",
        "2",
        "--nef",
        "0",
    )
    assert install(tmp_path, *arguments).returncode == 0
    assert enabled(tmp_path) == {"modelmill-bie@1.service", "modelmill-bie@2.service"}
    assert (tmp_path / "etc/modelmill/secrets/redis_url").read_text() == "redis://:word@cloud:6379/0"
    assert not (tmp_path / "etc/modelmill/secrets/redis.conf").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--bie", "many"], "number of workers"),
        (["--bie"], "needs a value"),
        (["--workers-only"], "--redis-url"),
        (["--what"], "--workers-only"),
    ],
)
def test_a_wrong_call_says_what_is_needed_and_writes_nothing(tmp_path: Path, arguments: list[str], word: str) -> None:
    done = install(tmp_path / "root", *arguments)
    assert done.returncode == 2
    assert word in done.stderr
    assert not (tmp_path / "root").exists()


def test_a_python_in_a_home_is_refused_for_the_services_could_not_run_it(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n[ \"$2\" = 'import sys; print(sys.executable)' ] && echo /home/me/bin/python\nexit 0\n"
    )
    python.chmod(0o755)
    done = subprocess.run(
        [str(INSTALLER), "--root", str(tmp_path / "root")],
        env={**os.environ, "MODELMILL_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "in a home" in done.stderr
    assert not (tmp_path / "root").exists()


def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    done = install(tmp_path / "root", "--dry-run", "--bie", "2")
    assert done.returncode == 0
    assert "modelmill-bie@2.service" in done.stdout
    assert not (tmp_path / "root").exists()


def test_what_is_installed_is_all_that_the_application_needs(root: Path) -> None:
    installed = {path.name for path in (root / "opt/modelmill").iterdir()} - {".venv", "redis-server"}
    assert installed == {
        "LICENSE",
        "README.md",
        "actors",
        "app",
        "command",
        "ops",
        "pyproject.toml",
        "static",
        "templates",
    }
    assert (root / "opt/modelmill/ops/requirements.lock").read_bytes() == (
        REPOSITORY / "ops/requirements.lock"
    ).read_bytes()


def test_the_command_runs_as_the_services_with_their_settings_and_secrets(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert install(root).returncode == 0
    (root / "etc/modelmill/modelmill.env").write_text('# a comment\nMODELMILL_TOOLCHAINS=["host","kneron"]\n')
    program = root / "opt/modelmill/.venv/bin/modelmill"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nenv\necho "words: $*"\n')
    runuser = tmp_path / "bin/runuser"
    runuser.parent.mkdir()
    runuser.write_text('#!/bin/sh\necho "user: $2"\nshift 3\nexec "$@"\n')
    for path in (program, runuser):
        path.chmod(0o755)
    env = {"PATH": f"{runuser.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [root / "opt/modelmill/command", "users", "create", "alice"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = set(done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert {"user: modelmill", "words: users create alice"} <= lines
    service = dict(words.split("=", 1) for words in COMMON["Environment"].split() if "=" in words)
    assert f"MODELMILL_DATA_DIR={service['MODELMILL_DATA_DIR']}" in lines
    assert 'MODELMILL_TOOLCHAINS=["host","kneron"]' in lines
    secret = (root / "etc/modelmill/secrets/secret_key").read_text()
    assert f"MODELMILL_SECRET_KEY={secret}" in lines
