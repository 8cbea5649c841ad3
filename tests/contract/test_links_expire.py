"""A link to the S3 store ends by the server's own clock."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import httpx
import pytest

from app.kit.objects.s3 import S3Store
from tests.harness.until import until

pytestmark = pytest.mark.s3


def test_a_link_is_refused_once_its_time_is_over(s3_store: Callable[..., S3Store]) -> None:
    store, key = s3_store(), f"test-{uuid.uuid4().hex}/a"
    store.put(key, [b"x"])
    put, get = store.presign_put(key, expires_s=1), store.presign_get(key, expires_s=1)
    until(lambda: httpx.get(get).status_code, lambda status: status == 403, what="the link has expired")
    assert httpx.put(put, content=b"y").status_code == 403
    assert httpx.get(store.presign_get(key, expires_s=600)).status_code == 200
    assert b"".join(store.read(key)) == b"x"
    store.delete(key)
