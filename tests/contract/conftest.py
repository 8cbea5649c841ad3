"""A real S3 server for the contract tests: Ceph RGW, started once per session and ended with it.

MODELMILL_TEST_S3_ENDPOINT names one that runs already (keys as ops/s3-server sets them, or from
MODELMILL_TEST_S3_ACCESS_KEY and MODELMILL_TEST_S3_SECRET_KEY).
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.kit.objects.s3 import S3Store

S3_SERVER = Path(__file__).parents[2] / "ops" / "s3-server"
ACCESS_KEY = os.environ.get("MODELMILL_TEST_S3_ACCESS_KEY", "modelmill")
SECRET_KEY = os.environ.get("MODELMILL_TEST_S3_SECRET_KEY", "modelmill-secret")


def free_port(count: int) -> int:
    """The first of `count` neighbouring ports that are free now."""
    for _ in range(100):
        first = random.randint(20_000, 60_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise RuntimeError("no free ports")


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    given = os.environ.get("MODELMILL_TEST_S3_ENDPOINT")
    if given:
        yield given
        return
    folder = tempfile.mkdtemp(prefix="modelmill-s3-")  # short: it holds UNIX sockets
    try:
        command = [S3_SERVER, folder, str(free_port(3))]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=150)
        if done.returncode == 3 and not os.environ.get("CI"):
            pytest.skip(done.stderr.strip())
        if done.returncode:
            pytest.fail(done.stderr.strip())
        yield done.stdout.strip()
    finally:
        subprocess.run([S3_SERVER, "--stop", folder], check=True, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_store(s3_endpoint: str) -> Callable[..., S3Store]:
    """Make a store on the real server, by default on the one bucket of this session."""
    session_bucket = f"contract-{uuid.uuid4().hex[:12]}"

    def make(**changes: object) -> S3Store:
        arguments = {
            "endpoint": s3_endpoint,
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
            "bucket": session_bucket,
            "part_size": 5 << 20,  # the smallest S3 allows: more parts in small tests
        }
        return S3Store(**(arguments | changes))  # type: ignore[arg-type]

    return make
