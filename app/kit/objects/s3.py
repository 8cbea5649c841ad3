"""Objects in a bucket of any S3 server (MinIO, SeaweedFS, RustFS, Garage, Ceph, AWS), by plain S3 calls.

This module maps each operation to S3 calls. Threads may share a store, processes may not: open it after a fork.
`s3_connection` handles the server and the bucket, `s3_upload` sends, `s3_errors` translates errors.
"""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path

from minio.commonconfig import ComposeSource, CopySource
from minio.datatypes import Object
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.helpers import MAX_PART_SIZE, MIN_PART_SIZE
from urllib3 import BaseHTTPResponse

from app.kit.files import sha256_of
from app.kit.objects.base import (
    CHUNK_BYTES,
    DEFAULT_CONTENT_TYPE,
    BadKey,
    ByteStream,
    ObjectInfo,
    Stored,
    StoreUnavailable,
    check_content_type,
    check_expiry,
    check_key,
    check_prefix,
    check_range,
)
from app.kit.objects.folder import FULL_HERE, disk_errors
from app.kit.objects.s3_connection import Bucket, Connection
from app.kit.objects.s3_errors import s3_errors
from app.kit.objects.s3_upload import MAX_PARTS, Metered, cut, upload
from app.kit.text.attachment import attachment

COPY_LIMIT_BYTES = MAX_PART_SIZE  # beyond this, S3 copies only by ranges


class S3Store:
    """Objects in a bucket of an S3 server.

    Args:
        endpoint: `host:port`, or a URL, whose scheme then overrides `secure`.
        public_endpoint: what clients use, in the same form; None: `endpoint`.
        secure: HTTPS.
        part_size: the size of a part of a multipart upload, in bytes. Memory of one upload: about (num_parallel_uploads
            + 2) * part_size;
            its limit: 10 000 * part_size.
        num_parallel_uploads: concurrent parts of one object.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        access_key: str,
        secret_key: str,
        bucket: str,
        region: str = "us-east-1",
        secure: bool = True,
        public_endpoint: str | None = None,
        part_size: int = 8 << 20,
        num_parallel_uploads: int = 2,
    ) -> None:
        self._connection = Connection(
            endpoint, access_key, secret_key, region, secure=secure, public_endpoint=public_endpoint
        )
        self._client = self._connection.client
        self._bucket = Bucket(self._client, bucket, region)
        self._part_size = part_size
        self._num_parallel_uploads = num_parallel_uploads

    def put(
        self,
        key: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        max_bytes: int | None = None,
    ) -> Stored:
        """See `ObjectStore.put`."""
        check_key(key)
        metered = Metered(chunks, max_bytes=max_bytes)
        self._upload(key, cut(metered, self._part_size), content_type, {})
        return Stored(key, metered.size_bytes, metered.sha256)

    def put_file(self, key: str, path: Path, *, content_type: str = DEFAULT_CONTENT_TYPE) -> Stored:
        check_key(key)
        sha256 = sha256_of(path)
        with path.open("rb") as file:
            metered = Metered(iter(lambda: file.read(CHUNK_BYTES), b""), expected_sha256=sha256)
            self._upload(key, cut(metered, self._part_size), content_type, {"sha256": sha256})
        return Stored(key, metered.size_bytes, sha256)

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        response = self._get(key, {})
        assert response is not None  # only a range can be beyond the end
        info = _info_of_response(key, response)
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            with disk_errors(FULL_HERE), part.open("xb") as file:
                for chunk in _stream(response, CHUNK_BYTES):
                    file.write(chunk)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return info

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """See `ObjectStore.read`."""
        check_range(start, end)
        if end is not None and end <= start:
            self.info(key)
            return iter(())
        is_whole = start == 0 and end is None
        last = "" if end is None else end - 1
        response = self._get(key, {} if is_whole else {"Range": f"bytes={start}-{last}"})
        return _stream(response, chunk_bytes) if response else iter(())

    def info(self, key: str) -> ObjectInfo:
        check_key(key)
        self._bucket.prepare()
        with s3_errors(key):
            return _info_of_object(key, self._client.stat_object(self._bucket.name, key))

    def copy(self, source: str, target: str) -> ObjectInfo:
        check_key(target)
        source_info = self.info(source)
        if source == target:
            return source_info
        bucket = self._bucket.name
        with s3_errors(source):
            if source_info.size_bytes <= COPY_LIMIT_BYTES:
                self._client.copy_object(bucket, target, CopySource(bucket, source))
            else:
                # A composed object starts without metadata.
                metadata = {"Content-Type": source_info.content_type}
                self._client.compose_object(bucket, target, [ComposeSource(bucket, source)], metadata={**metadata})
        return self.info(target)

    def join(self, sources: Sequence[str], target: str) -> ObjectInfo:
        check_key(target)
        if not sources:
            raise ValueError("nothing to join")
        sizes = [self.info(source).size_bytes for source in sources]
        if len(sources) <= MAX_PARTS and all(MIN_PART_SIZE <= size <= COPY_LIMIT_BYTES for size in sizes[:-1]):
            bucket = self._bucket.name
            with s3_errors(target):
                self._client.compose_object(bucket, target, [ComposeSource(bucket, source) for source in sources])
        else:  # S3 copies no smaller parts
            self.put(target, chain.from_iterable(map(self.read, sources)))
        return self.info(target)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        self._bucket.prepare()
        return self._walk(prefix)

    def delete(self, key: str) -> None:
        check_key(key)
        self._bucket.prepare()
        with s3_errors(key):
            self._client.remove_object(self._bucket.name, key)

    def delete_prefix(self, prefix: str) -> int:
        if not prefix:
            raise BadKey("An empty prefix would delete everything.")
        keys = [DeleteObject(info.key) for info in self.list(prefix)]
        with s3_errors():
            failed = builtins.list(self._client.remove_objects(self._bucket.name, keys))
        if failed:
            raise StoreUnavailable(f"{len(failed)} of {len(keys)} objects were not deleted ({failed[0].code}).")
        return len(keys)

    def presign_get(self, key: str, *, expires_s: int, download_name: str | None = None) -> str:
        lifetime = timedelta(seconds=check_expiry(expires_s))
        headers = {"response-content-disposition": attachment(download_name)} if download_name else {}
        return self._connection.signer.presigned_get_object(
            self._bucket.name, check_key(key), lifetime, response_headers={**headers}
        )

    def presign_put(self, key: str, *, expires_s: int) -> str:
        lifetime = timedelta(seconds=check_expiry(expires_s))
        check_key(key)
        self._bucket.prepare()  # the holder of this URL could not read it
        return self._connection.signer.presigned_put_object(self._bucket.name, key, lifetime)

    def check(self) -> None:
        with s3_errors():
            self._connection.probe.bucket_exists(self._bucket.name)

    def _upload(self, key: str, parts: Iterator[bytes], content_type: str, metadata: dict[str, str]) -> None:
        check_content_type(content_type)
        self._bucket.prepare()
        try:
            upload(
                self._client,
                self._bucket.name,
                key,
                parts,
                content_type=content_type,
                metadata=metadata,
                num_parallel_uploads=self._num_parallel_uploads,
            )
        except StoreUnavailable:
            self._bucket.forget()
            raise

    def _get(self, key: str, headers: dict[str, str]) -> BaseHTTPResponse | None:
        """Opens a response; None if the range in `headers` starts at the end of the object or beyond."""
        check_key(key)
        self._bucket.prepare()
        with s3_errors(key):
            try:
                return self._client.get_object(self._bucket.name, key, request_headers={**headers})
            except S3Error as error:
                if error.code != "InvalidRange":
                    raise
                return None

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        with s3_errors():
            for listed in self._client.list_objects(self._bucket.name, prefix, recursive=True):
                if listed.object_name and not listed.is_dir:
                    yield _info_of_object(listed.object_name, listed)


def _info_of_object(key: str, listed: Object) -> ObjectInfo:
    modified_at = (listed.last_modified or datetime.now(UTC)).astimezone(UTC)
    content_type = listed.content_type or DEFAULT_CONTENT_TYPE
    return ObjectInfo(key, listed.size or 0, listed.etag or "", modified_at, content_type)


def _info_of_response(key: str, response: BaseHTTPResponse) -> ObjectInfo:
    headers = response.headers
    modified_at = parsedate_to_datetime(headers["Last-Modified"]).astimezone(UTC)
    content_type = headers.get("Content-Type", DEFAULT_CONTENT_TYPE)
    return ObjectInfo(key, int(headers["Content-Length"]), headers["ETag"].strip('"'), modified_at, content_type)


def _stream(response: BaseHTTPResponse, chunk_bytes: int) -> ByteStream:
    def read_some(size_bytes: int) -> bytes:
        with s3_errors():
            return response.read(size_bytes, decode_content=False)

    def close() -> None:
        response.close()
        response.release_conn()

    return ByteStream(read_some, close, int(response.headers["Content-Length"]), chunk_bytes)
