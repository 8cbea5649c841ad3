"""Streaming uploads to S3: a stream in, one request or one multipart upload out, in constant memory.

minio's own `put_object` concatenates parts in quadratic time, leaves its threads behind when the stream fails, and
aborts while parts are in transit, which may leave them dangling. So the parts are cut and sent here, with minio's
single requests. This module does not handle keys, the creation of buckets or store errors, except for size limits.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from minio import Minio
from minio.datatypes import Part
from minio.error import MinioException
from urllib3.exceptions import HTTPError

from app.kit.errors import TooLarge
from app.kit.objects.base import ObjectChanged, StoreUnavailable
from app.kit.objects.s3_errors import s3_errors

MAX_PARTS = 10_000
_log = logging.getLogger(__name__)


class Metered(Iterator[bytes]):
    """Passes chunks through, counting and hashing them.

    Raises:
        TooLarge: They exceed `max_bytes`.
        ObjectChanged: At the end, their digest is not `expected_sha256`.
    """

    def __init__(
        self, chunks: Iterable[bytes], *, max_bytes: int | None = None, expected_sha256: str | None = None
    ) -> None:
        self._chunks = iter(chunks)
        self._max_bytes = max_bytes
        self._expected_sha256 = expected_sha256
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            if self._expected_sha256 not in (None, self.sha256):
                raise ObjectChanged(
                    "The file changed while it was being stored.", hint="Try again when it is complete."
                ) from None
            raise
        self.size_bytes += len(chunk)
        if self._max_bytes is not None and self.size_bytes > self._max_bytes:
            raise TooLarge(f"The object is larger than the limit of {self._max_bytes} bytes.")
        self._digest.update(chunk)
        return chunk

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def cut(chunks: Iterable[bytes], part_bytes: int) -> Iterator[bytes]:
    """The same bytes in parts of exactly `part_bytes`, except for the last; one empty part if there are none."""
    pending: list[memoryview] = []
    pending_bytes, is_first = 0, True
    for chunk in chunks:
        view = memoryview(chunk)
        while pending_bytes + len(view) >= part_bytes:
            taken = part_bytes - pending_bytes
            part = b"".join([*pending, view[:taken]])
            # Release the pieces before yielding the part: the sender may keep us waiting.
            pending, pending_bytes, is_first = [], 0, False
            view = view[taken:]
            yield part
        if view:
            pending.append(view)
            pending_bytes += len(view)
    if pending or is_first:
        yield b"".join(pending)


def upload(
    client: Minio,
    bucket: str,
    key: str,
    parts: Iterator[bytes],
    *,
    content_type: str,
    metadata: dict[str, str],
    num_parallel_uploads: int,
) -> None:
    """Stores the parts as one object. Exceptions of `parts` propagate, and the server keeps nothing.

    Args:
        parts: at least one, all except the last of the same size; a single one is sent without a multipart upload.
        metadata: without S3's prefix.
        num_parallel_uploads: parts in transit at once, and so in memory.

    Raises:
        StoreUnavailable: The server does not complete it, or does not answer.
    """
    first = next(parts)
    second = next(parts, None)
    if second is None:
        with s3_errors(key):
            client.put_object(
                bucket, key, io.BytesIO(first), len(first), content_type=content_type, metadata=dict(metadata)
            )
        return
    headers = {"Content-Type": content_type} | {f"x-amz-meta-{name}": value for name, value in metadata.items()}
    with s3_errors(key):
        upload_id = client._create_multipart_upload(bucket, key, dict(headers))
    try:
        every = _drain([first, second], parts)
        del first, second  # otherwise they stay in memory to the end
        sent = _send(client, bucket, key, upload_id, every, num_parallel_uploads)
        with s3_errors(key):
            done = client._complete_multipart_upload(bucket, key, upload_id, sent)
        if not (done.bucket_name or done.etag):  # S3 may start its response with 200 and end it with an error
            raise StoreUnavailable("The S3 server did not complete the upload.", hint="Try again in a moment.")
    except BaseException:
        _abort(client, bucket, key, upload_id)
        raise


def _drain(held: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    while held:
        yield held.pop(0)
    yield from rest


def _send(
    client: Minio, bucket: str, key: str, upload_id: str, parts: Iterator[bytes], num_parallel_uploads: int
) -> list[Part]:
    """Sends parts concurrently; returns when none is in transit any more, also if it raises."""
    sent: list[Part] = []
    running: deque[tuple[int, Future[str]]] = deque()

    def settle() -> None:
        number, future = running.popleft()
        with s3_errors(key):
            sent.append(Part(number, future.result()))

    pool = ThreadPoolExecutor(num_parallel_uploads, thread_name_prefix="s3-part")
    try:
        for number, data in enumerate(parts, 1):
            if number > MAX_PARTS:
                raise TooLarge(f"The object needs more than {MAX_PARTS} parts.")
            if len(running) >= num_parallel_uploads:
                settle()
            running.append((number, pool.submit(client._upload_part, bucket, key, data, None, upload_id, number)))
        while running:
            settle()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return sent


def _abort(client: Minio, bucket: str, key: str, upload_id: str) -> None:
    try:
        client._abort_multipart_upload(bucket, key, upload_id)
    except (MinioException, HTTPError) as error:
        # The first error is the one to report; a lifecycle rule of the bucket deletes the parts.
        _log.warning("an upload of %s could not be aborted: %s", key, type(error).__name__)
