"""What the contract tests of object stores share: a store on the real S3 server of the run, and a prefix."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from app.kit.objects.base import ObjectStore
from app.kit.objects.s3 import S3Store
from tests.harness.s3_server import ACCESS_KEY, SECRET_KEY, S3Server


@pytest.fixture(scope="session")
def s3_store(s3_server: S3Server) -> Callable[..., S3Store]:
    """Make a store on the real server, by default on the one bucket of this session."""
    session_bucket = f"contract-{uuid.uuid4().hex[:12]}"

    def make(**changes: object) -> S3Store:
        arguments = {
            "endpoint": s3_server.endpoint,
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
            "bucket": session_bucket,
            "part_size": 5 << 20,  # the smallest S3 allows: more parts in small tests
        }
        return S3Store(**(arguments | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def at(store: ObjectStore) -> Iterator[str]:
    """A prefix of its own for each test, in the `store` of its module."""
    prefix = f"test-{uuid.uuid4().hex}/"
    yield prefix
    store.delete_prefix(prefix)
