"""Presigned S3 links by real HTTP, as a browser or curl would use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs

import httpx
import pytest

from app.kit.objects.s3 import S3Store

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3_store: Callable[..., S3Store]) -> S3Store:
    return s3_store()


def test_a_client_puts_and_gets_with_links_alone(store: S3Store, at: str) -> None:
    put = httpx.put(store.presign_put(at + "ü b", expires_s=60), content=b"x" * 100_000)
    assert put.status_code == 200
    assert store.info(at + "ü b").size_bytes == 100_000
    got = httpx.get(store.presign_get(at + "ü b", expires_s=60))
    assert (got.status_code, got.content) == (200, b"x" * 100_000)
    part = httpx.get(store.presign_get(at + "ü b", expires_s=60), headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, b"xxxxx")


def test_a_download_gets_its_name(store: S3Store, at: str) -> None:
    store.put(at + "a", [b"x"])
    name = '模型 "v1"; final.nef'
    got = httpx.get(store.presign_get(at + "a", expires_s=60, download_name=name))
    header = got.headers["content-disposition"]
    assert header.startswith('attachment; filename="__ _v1__ final.nef"')
    exact = re.search(r"filename\*=UTF-8''(\S+)$", header)
    assert exact
    assert parse_qs(f"n={exact[1]}")["n"] == [name]


def test_a_link_serves_its_method_key_and_time_only(store: S3Store, at: str) -> None:
    store.put(at + "a", [b"x"])
    store.put(at + "b", [b"x"])
    url = store.presign_get(at + "a", expires_s=60)
    assert httpx.put(url, content=b"y").status_code == 403
    assert httpx.get(url.replace(at + "a", at + "b")).status_code == 403
    assert httpx.get(url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")).status_code == 403


def test_links_carry_the_public_address(s3_store: Callable[..., S3Store], at: str) -> None:
    store = s3_store(public_endpoint="https://files.mill.example")
    assert store.presign_get("a", expires_s=60).startswith("https://files.mill.example/")
    assert store.presign_put("a", expires_s=60).startswith("https://files.mill.example/")
