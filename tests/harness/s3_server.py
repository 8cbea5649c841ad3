"""A real S3 server for tests: Ceph RGW in a folder of its own, as ops/s3-server starts it."""

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

SCRIPT = REPOSITORY / "ops" / "s3-server"
ACCESS_KEY, SECRET_KEY = "modelmill", "modelmill-secret"


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    folder: Path

    def administer(self, *arguments: str) -> None:
        """radosgw-admin, the operator's command."""
        command = ["radosgw-admin", "-c", str(self.folder / "ceph.conf"), *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Skips where Ceph is not installed, but fails in CI."""
    folder = tempfile.mkdtemp(prefix="modelmill-s3-")  # short: it holds UNIX sockets
    try:
        command = [SCRIPT, folder, str(free_ports(3)[0])]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150)
        if done.returncode == 3 and not os.environ.get("CI"):
            pytest.skip(done.stderr.strip())
        if done.returncode:
            pytest.fail(done.stderr.strip())
        yield S3Server(done.stdout.strip(), Path(folder))
    finally:
        subprocess.run([SCRIPT, "--stop", folder], check=True, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
