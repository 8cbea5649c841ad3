"""A link to the S3 store ends by the server's own clock."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import httpx
import pytest

from app.kit.objects.s3 import S3Store

pytestmark = pytest.mark.s3
PATIENCE_S = 60


def test_a_link_is_refused_once_its_time_is_over(s3_store: Callable[..., S3Store]) -> None:
    store, key = s3_store(), f"test-{uuid.uuid4().hex}/a"
    store.put(key, [b"x"])
    get, put = store.presign_get(key, expires_s=3), store.presign_put(key, expires_s=1)
    assert httpx.get(get).status_code == 200
    deadline = time.monotonic() + PATIENCE_S
    while httpx.get(get).status_code == 200:
        assert time.monotonic() < deadline, "the link outlived its time"
        time.sleep(0.1)
    assert httpx.get(get).status_code == 403
    assert httpx.put(put, content=b"y").status_code == 403
    assert b"".join(store.read(key)) == b"x"
    store.delete(key)
