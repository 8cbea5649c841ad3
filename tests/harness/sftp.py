"""The built-in SFTP server as its own process, users with homes, and OpenSSH's client against it.

For tests and measurements, as the rest of the harness.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from app.accounts.model import Role
from app.bootstrap.accounts import MIGRATIONS, open_accounts
from app.bootstrap.homes import open_homes
from app.kit.sql.migrations import upgrade
from app.settings import Settings
from tests.harness.copied_children import spawn
from tests.harness.migrated import migrated_data
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

if TYPE_CHECKING:
    import pexpect

ASKPASS = "#!/bin/sh\nprintf '%s\\n' \"$SFTP_PASSWORD\"\n"


class SftpServer:
    """before: what starts the server's process. database_url: of all but this process, SQLite if empty. program: of a
    port, what the process runs; by default the command. change: further settings of it."""

    def __init__(
        self,
        folder: Path,
        before: Sequence[str] = (),
        database_url: str = "",
        program: Callable[[int], Sequence[str]] = lambda _: ("-m", "app.cli.main", "sftp"),
        **change: str,
    ) -> None:
        self.folder = folder
        self.before = before
        self.port = free_port()
        self.program = program(self.port)
        self.settings = Settings(
            data_dir=folder / "data",
            secret_key=SecretStr("s"),
            sftp_port=self.port,
            database_url=SecretStr(database_url),
        )
        migrated_data(self.settings)
        self.accounts = open_accounts(self.settings)
        upgrade(self.accounts.database, MIGRATIONS)
        self.homes = open_homes(self.settings, self.accounts.database)
        self.key = folder / "key"
        keygen = shutil.which("ssh-keygen") or "/usr/bin/ssh-keygen"
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        self.env = {
            **os.environ,
            "MODELMILL_DATA_DIR": str(folder / "data"),
            "MODELMILL_SFTP_PORT": str(self.port),
            **{f"MODELMILL_{name.upper()}": value for name, value in change.items()},
        }
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [*self.before, sys.executable, *self.program]
        process = spawn(command, env=self.env, log=self.folder / "sftp.log", folder=REPOSITORY)
        until(lambda: b"SFTP on" in (self.folder / "sftp.log").read_bytes(), what="the server listens")
        return process

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0
        self.accounts.database.close()

    def user(self, name: str, *, quota_bytes: int | None = None, has_key: bool = True) -> Path:
        """A user with a home and our key. Returns the home."""
        self.accounts.users.create(name, Role.USER, by="test", quota_bytes=quota_bytes)
        self.homes.outbox.apply(name)
        if has_key:
            self.homes.sftp.set_keys(name, [self.key.with_suffix(".pub").read_text()], by="test")
        return self.settings.homes / "users" / name

    def command(self, user: str, *options: str) -> list[str]:
        return [
            "sftp",
            "-F",
            "/dev/null",
            "-P",
            str(self.port),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={self.folder / 'known_hosts'}",
            "-o",
            "IdentitiesOnly=yes",
            *options,
            f"{user}@127.0.0.1",
        ]

    def batch(self, user: str, *lines: str, fails: bool = False) -> str:
        """What sftp says to these lines, with our key. Those that begin with '-' may fail."""
        command = self.command(user, "-i", str(self.key), "-b", "-")
        done = subprocess.run(
            command,
            input="\n".join(lines),
            env={**os.environ, "LC_ALL": "C.UTF-8"},  # in others, names are shown as octal numbers
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def begin(self, user: str, line: str, *options: str) -> subprocess.Popen[bytes]:
        """A client of its own process group that does this line."""
        command = self.command(user, "-i", str(self.key), "-b", "-", *options)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(line.encode() + b"\n")
        process.stdin.close()
        return process

    def with_password(self, user: str, password: str, *lines: str) -> subprocess.CompletedProcess[str]:
        askpass = self.folder / "askpass"
        askpass.write_text(ASKPASS)
        askpass.chmod(0o700)
        env = {**os.environ, "SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force", "SFTP_PASSWORD": password}
        options = ("-o", "BatchMode=no", "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1", "-b", "-")
        return subprocess.run(
            self.command(user, *options),
            input="\n".join(lines),
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            start_new_session=True,
        )

    def terminal(self, user: str, *options: str) -> pexpect.spawn:
        """A client at a terminal, where it asks for passwords."""
        import pexpect

        command, *arguments = self.command(user, *options)
        return pexpect.spawn(command, arguments, timeout=120, encoding="utf-8")


def kill(process: subprocess.Popen[bytes]) -> None:
    """As when the machine of the client dies: sftp and the ssh that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def has_client() -> bool:
    return shutil.which("sftp") is not None and shutil.which("ssh-keygen") is not None
