"""A real S3 server for tests: Ceph RGW in a folder of its own, as ops/s3-server starts it.

MODELMILL_TEST_S3_ENDPOINT names one that runs already (keys as ops/s3-server sets them, or from
MODELMILL_TEST_S3_ACCESS_KEY and MODELMILL_TEST_S3_SECRET_KEY).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_ports
from tests.harness.shared_server import shared_server
from tests.harness.until import PATIENCE_S

SCRIPT = REPOSITORY / "ops" / "s3-server"
GIVEN = os.environ.get("MODELMILL_TEST_S3_ENDPOINT", "")
ACCESS_KEY = os.environ.get("MODELMILL_TEST_S3_ACCESS_KEY", "modelmill") if GIVEN else "modelmill"
SECRET_KEY = os.environ.get("MODELMILL_TEST_S3_SECRET_KEY", "modelmill-secret") if GIVEN else "modelmill-secret"


@dataclass(frozen=True)
class S3Server:
    """folder: of one that we have started."""

    endpoint: str
    folder: Path | None = None

    def administer(self, *arguments: str) -> None:
        """radosgw-admin, the operator's command. Skips where the server is not ours."""
        if self.folder is None:
            pytest.skip("the S3 server that MODELMILL_TEST_S3_ENDPOINT names cannot be administered from here")
        command = ["radosgw-admin", "-c", str(self.folder / "ceph.conf"), *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


@contextmanager
def shared_s3_server(folder: Path) -> Iterator[S3Server]:
    """The one of this run, in its folder. Skips where Ceph is not installed, but fails in CI."""
    if GIVEN:
        yield S3Server(GIVEN)
        return
    with shared_server(folder, "s3-server", _start, _stop) as line:
        endpoint, _, home = line.partition(" ")
        yield S3Server(endpoint, Path(home))


def _start() -> str:
    """Its endpoint and its folder."""
    home = tempfile.mkdtemp(prefix="modelmill-s3-")  # short: it holds UNIX sockets
    command: list[str | Path] = [SCRIPT, home, str(free_ports(3)[0])]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
        if done.returncode == 3 and not os.environ.get("CI"):
            pytest.skip(done.stderr.strip())
        if done.returncode:
            pytest.fail(done.stderr.strip())
    except BaseException:
        _end(home)
        raise
    return f"{done.stdout.strip()} {home}"


def _stop(line: str) -> None:
    _end(line.partition(" ")[2])


def _end(home: str) -> None:
    subprocess.run([SCRIPT, "--stop", home], check=True, timeout=PATIENCE_S)
    shutil.rmtree(home, ignore_errors=True)
