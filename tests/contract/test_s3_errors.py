"""What the S3 store says when the server is away, refuses, is full, or is no S3 server; and its bucket's life."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import minio.api
import pytest
from urllib3 import Retry

from app.kit.errors import ModelmillError, TooLarge
from app.kit.objects import ObjectChanged, S3Options, StoreFull, StoreRefused, StoreUnavailable, open_store
from app.kit.objects import s3 as s3_module
from app.kit.objects.s3 import S3Store
from app.kit.objects.s3_connection import PROBE_TIMEOUT_S
from tests.harness.http_server import respond, served

MIB = 1 << 20


def store_at(endpoint: str) -> S3Store:
    return S3Store(endpoint, access_key="an-access-key", secret_key="very-secret", bucket="bucket")


class Sayer:
    """Answers everything with one status, type and body."""

    def __init__(self) -> None:
        self.url = ""
        self.says = (200, "application/xml", b"")

    def answer(self, request: BaseHTTPRequestHandler, _: bytes) -> None:
        status, content_type, body = self.says
        if request.path.rstrip("/").count("/") == 1 and request.command == "HEAD":  # the bucket is there
            status, body = 200, b""
        respond(request, body, status, headers={"Content-Type": content_type})


@pytest.fixture
def sayer() -> Iterator[Sayer]:
    sayer = Sayer()
    with served(sayer.answer) as sayer.url:
        yield sayer


def error_xml(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>no</Message><Resource>/x</Resource></Error>".encode()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "QuotaExceeded", StoreFull),
        (507, "XMinioStorageFull", StoreFull),
        (507, "Whatever", StoreFull),
        (400, "EntityTooLarge", TooLarge),
        (403, "AccessDenied", StoreRefused),
        (403, "InvalidAccessKeyId", StoreRefused),
        (403, "RequestTimeTooSkewed", StoreRefused),
        (503, "SlowDown", StoreUnavailable),
        (500, "InternalError", StoreUnavailable),
        (404, "NoSuchBucket", StoreUnavailable),
        (418, "Teapot", StoreRefused),
    ],
)
def test_what_the_server_says_is_told_in_our_words(
    sayer: Sayer, status: int, code: str, expected: type[ModelmillError]
) -> None:
    sayer.says = (status, "application/xml", error_xml(code))
    with pytest.raises(expected) as caught:
        store_at(sayer.url).put("a", [b"x"])
    assert "very-secret" not in str(caught.value.to_dict())
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("status", [200, 404, 502])
def test_a_server_that_does_not_speak_s3_is_named_so(sayer: Sayer, status: int) -> None:
    sayer.says = (status, "text/html", b"<h1>It works!</h1>")
    store = store_at(sayer.url)
    with pytest.raises(StoreUnavailable, match=r"does not answer like an S3 server|in trouble"):
        list(store.list("a"))


def test_an_upload_stops_reading_when_a_part_fails(sayer: Sayer) -> None:
    sayer.says = (403, "application/xml", error_xml("AccessDenied"))
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield bytes(MIB)

    with pytest.raises(StoreRefused):
        store_at(sayer.url).put("a", chunks())
    assert taken < 40


def test_a_server_that_is_down_is_reported_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(Retry, "_sleep_backoff", lambda retry: pauses.append(retry.get_backoff_time()))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        store = store_at(f"http://127.0.0.1:{unused.getsockname()[1]}")
        calls: list[Callable[[], object]] = [
            store.check,
            lambda: store.put("a", [b"x"]),
            lambda: store.read("a"),
            lambda: store.list("a"),
            lambda: store.get_file("a", tmp_path / "a"),
            lambda: store.presign_put("a", expires_s=60),
        ]
        for call in calls:
            pauses.clear()
            with pytest.raises(StoreUnavailable, match="NewConnectionError") as caught:
                call()
            assert sum(pauses) <= 1
            assert (caught.value.status, caught.value.code, caught.value.can_retry) == (503, "STORE_UNAVAILABLE", True)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_does_not_wait_for_a_server_that_hangs() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(StoreUnavailable, match="ReadTimeoutError") as caught:
            store_at(f"http://127.0.0.1:{mute.getsockname()[1]}").check()
        assert f"read timeout={PROBE_TIMEOUT_S}" in str(caught.value.__context__)


def test_a_download_cut_short_is_no_file(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, _: bytes) -> None:
        date = "Fri, 20 Nov 2026 21:00:00 GMT"
        is_file = request.command == "GET"
        length = {"Content-Length": str(10 * MIB)} if is_file else {}
        respond(request, bytes(3 * MIB) if is_file else b"", headers={"ETag": '"x"', "Last-Modified": date, **length})

    with served(answer) as url:
        store = store_at(url)
        with pytest.raises(StoreUnavailable):
            store.get_file("a", tmp_path / "a")
        with pytest.raises(StoreUnavailable):
            list(store.read("a"))
        assert list(tmp_path.iterdir()) == []


def test_objects_that_the_server_keeps_are_not_reported_as_deleted() -> None:
    entries = "".join(
        f"<Contents><Key>p/{name}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
        for name in "ab"
    )
    answers = {
        "GET": f"<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>",
        "POST": "<DeleteResult><Error><Key>p/b</Key><Code>AccessDenied</Code></Error></DeleteResult>",
    }

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> None:
        respond(request, answers.get(request.command, "").encode(), headers={"Content-Type": "application/xml"})

    with (
        served(answer) as url,
        pytest.raises(StoreUnavailable, match=r"1 of 2 objects were not deleted \(AccessDenied\)"),
    ):
        store_at(url).delete_prefix("p/")


@pytest.mark.parametrize("endpoint", ["", "http://", "ftp://host", "http://host/path", "http://a:b@host", "host?x=1"])
def test_an_endpoint_that_cannot_be_one_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        store_at(endpoint)


@pytest.mark.parametrize("bucket", ["", "ab", "Upper", "under_score", "a..b", "192.168.0.1"])
def test_a_bucket_name_that_cannot_be_one_is_refused(bucket: str) -> None:
    with pytest.raises(ValueError, match="bucket"):
        S3Store("host", access_key="a", secret_key="b", bucket=bucket)


def test_options_do_not_show_their_secrets() -> None:
    options = S3Options("host:9000", "an-access-key", "very-secret", "bucket")
    assert "very-secret" not in repr(options)
    assert "an-access-key" not in repr(options)
    assert isinstance(open_store(options), S3Store)


def test_reading_links_needs_no_server() -> None:
    assert store_at("https://nowhere.invalid").presign_get("a", expires_s=60).startswith("https://nowhere.invalid/")


@pytest.mark.s3
@pytest.mark.parametrize("wrong", [{"secret_key": "wrong-secret"}, {"access_key": "nobody"}])
def test_wrong_credentials_are_named(
    s3_store: Callable[..., S3Store], wrong: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    s3_store().put("a", [b"x"])
    store = s3_store(**wrong)
    calls: list[Callable[[], object]] = [store.check, lambda: store.put("a", [b"x"]), lambda: store.info("a")]
    for call in calls:
        with pytest.raises(StoreRefused, match="credentials") as caught:
            call()
        assert "access key" in caught.value.hint
        assert "wrong-secret" not in str(caught.value.to_dict())
    assert "wrong-secret" not in caplog.text


@pytest.mark.s3
def test_many_first_users_create_one_bucket(s3_store: Callable[..., S3Store]) -> None:
    bucket = f"race-{uuid.uuid4().hex[:12]}"
    stores = [s3_store(bucket=bucket) for _ in range(6)]
    start, failures = threading.Barrier(6), []

    def use(number: int) -> None:
        start.wait()
        try:
            stores[number].put(str(number), [b"x"])
        except ModelmillError as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(stores[0].list(""))) == 6


@pytest.mark.s3
def test_a_new_bucket_sweeps_broken_uploads_by_itself(s3_store: Callable[..., S3Store]) -> None:
    store = s3_store(bucket=f"rule-{uuid.uuid4().hex[:12]}")
    store.put("a", [b"x"])
    rules = store._client.get_bucket_lifecycle(store._bucket.name)
    assert rules is not None
    sweeping = rules.rules[0].abort_incomplete_multipart_upload
    assert sweeping is not None
    assert sweeping.days_after_initiation == 1


@pytest.mark.s3
def test_a_bucket_that_was_deleted_comes_back(s3_store: Callable[..., S3Store]) -> None:
    store = s3_store(bucket=f"gone-{uuid.uuid4().hex[:12]}")
    store.put("a", [b"x"])
    store.delete("a")
    store._client.remove_bucket(store._bucket.name)
    with pytest.raises(StoreUnavailable, match="bucket is gone"):
        store.put("a", [b"x"])
    assert store.put("a", [b"x"]).size_bytes == 1


@pytest.mark.s3
def test_more_than_a_plain_copy_can_take_is_composed(
    s3_store: Callable[..., S3Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = s3_store()
    store.put("big", (bytes([i]) * MIB for i in range(12)), content_type="model/onnx")
    monkeypatch.setattr(s3_module, "COPY_LIMIT_BYTES", 5 * MIB)
    monkeypatch.setattr(minio.api, "MAX_PART_SIZE", 5 * MIB)  # stands for 5 GiB
    info = store.copy("big", "composed")
    assert (info.size_bytes, info.content_type) == (12 * MIB, "model/onnx")
    assert info.etag.endswith("-3")
    assert b"".join(store.read("composed")) == b"".join(store.read("big"))


@pytest.mark.s3
def test_a_file_keeps_its_digest_as_metadata(s3_store: Callable[..., S3Store], tmp_path: Path) -> None:
    store = s3_store()
    for size in (10, 6 * MIB):
        (tmp_path / "f").write_bytes(bytes(size))
        stored = store.put_file("f", tmp_path / "f")
        metadata = store._client.stat_object(store._bucket.name, "f").metadata
        assert metadata is not None
        assert metadata["x-amz-meta-sha256"] == stored.sha256


@pytest.mark.s3
@pytest.mark.parametrize("size", [10, 12 * MIB])
def test_a_file_that_changes_meanwhile_is_not_stored(
    s3_store: Callable[..., S3Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    store, path = s3_store(), tmp_path / "f"
    path.write_bytes(bytes(size))
    prepare = store._bucket.prepare

    def change_then_prepare() -> None:
        path.write_bytes(b"y" * size)
        prepare()

    monkeypatch.setattr(store._bucket, "prepare", change_then_prepare)  # runs between the two passes over the file
    with pytest.raises(ObjectChanged):
        store.put_file("changing", path)
    monkeypatch.undo()
    assert list(store.list("changing")) == []
