"""A real S3 server for the contract tests: Ceph RGW, started once per session and ended with it.

MODELMILL_TEST_S3_ENDPOINT names one that runs already (keys as ops/s3-server sets them, or from
MODELMILL_TEST_S3_ACCESS_KEY and MODELMILL_TEST_S3_SECRET_KEY).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from app.kit.objects.s3 import S3Store
from tests.harness import s3_server

ACCESS_KEY = os.environ.get("MODELMILL_TEST_S3_ACCESS_KEY", s3_server.ACCESS_KEY)
SECRET_KEY = os.environ.get("MODELMILL_TEST_S3_SECRET_KEY", s3_server.SECRET_KEY)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    given = os.environ.get("MODELMILL_TEST_S3_ENDPOINT")
    if given:
        yield given
        return
    with s3_server.s3_server() as server:
        yield server.endpoint


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
