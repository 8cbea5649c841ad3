"""Several hosts on one machine: network namespaces on a bridge, each with a user, an address and folders of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tests.harness.paths import REPOSITORY

ENTER = Path(__file__).with_name("enter.py")
IP = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or "ip"
FIRST_UID = 41_000
"""Nobody on a usual machine; a user needs no name."""
READABLE = (sys.base_prefix, sys.prefix, str(REPOSITORY))


class NotPermitted(Exception):
    """This machine lets us make no namespaces."""


def ip(*words: str) -> None:
    try:
        subprocess.run([IP, *words], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotPermitted("there is no `ip` command (apt-get install iproute2)") from error
    except subprocess.CalledProcessError as error:
        raise NotPermitted(f"ip {' '.join(words)}: {error.stderr.strip()}") from error


class Host:
    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self.uid = FIRST_UID + number
        self.address = f"{network.prefix}.{number + 2}"
        self.namespace = f"mm-{network.tag}-{name}"
        self.link = f"mm{network.tag}{number}"
        self.folder = network.folder / name
        self.folder.mkdir()
        os.chown(self.folder, self.uid, self.uid)
        self.processes: list[subprocess.Popen[bytes]] = []
        ip("netns", "add", self.namespace)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("link", "set", self.link, "master", network.bridge, "up")
        ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")
        ip("-n", self.namespace, "link", "set", "lo", "up")

    def start(self, command: list[str], **settings: str) -> subprocess.Popen[bytes]:
        """Run a command of the product here. settings: MODELMILL_* variables without the prefix."""
        with (self.folder.parent / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._entered(command),
                env=self._env(settings),
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, command: list[str], **settings: str) -> str:
        """The same until it has ended, and what it prints."""
        ran = subprocess.run(
            self._entered(command), env=self._env(settings), cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def _entered(self, command: list[str]) -> list[str]:
        entering = [IP, "netns", "exec", self.namespace, sys.executable, str(ENTER), str(self.uid), *READABLE, "--"]
        return [*entering, *command]

    def _env(self, settings: dict[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MODELMILL_NODE_NAME": self.name,
            "MODELMILL_DATA_DIR": str(self.folder / "data"),
            "MODELMILL_WORK_DIR": str(self.folder / "work"),
            "MODELMILL_RUN_DIR": str(self.folder / "run"),
            **{f"MODELMILL_{name.upper()}": value for name, value in settings.items()},
        }

    def log(self) -> str:
        return (self.folder.parent / f"{self.name}.log").read_text(errors="replace")

    def unplug(self) -> None:
        ip("link", "set", self.link, "down")

    def plug_in(self) -> None:
        ip("link", "set", self.link, "up")

    def tell(self, number: signal.Signals) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, number)

    def wait(self) -> None:
        """For their end, but not for ever."""
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)


class Network:
    """A bridge of this machine, whose address the hosts reach, and they each other. Raises NotPermitted."""

    def __init__(self) -> None:
        self.tag = secrets.token_hex(3)
        self.prefix = f"10.213.{secrets.randbelow(250) + 1}"
        self.address = f"{self.prefix}.1"
        self.bridge = f"mm{self.tag}"
        self.hosts: dict[str, Host] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="modelmill-hosts-"))  # pytest's own folders are closed to others
        self.folder.chmod(0o711)

    def __enter__(self) -> Network:
        if os.geteuid() != 0:
            raise NotPermitted("it takes root to make network namespaces and users")
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for host in self.hosts.values():
                host.tell(number)
            for host in self.hosts.values():
                host.wait()
        for host in self.hosts.values():
            with contextlib.suppress(NotPermitted):
                ip("netns", "del", host.namespace)
        with contextlib.suppress(NotPermitted):
            ip("link", "del", self.bridge)
        shutil.rmtree(self.folder, ignore_errors=True)

    def host(self, name: str) -> Host:
        self.hosts[name] = Host(self, name, len(self.hosts))
        return self.hosts[name]
