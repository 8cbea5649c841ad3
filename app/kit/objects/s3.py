"""Objects in a bucket of any S3 server (MinIO, SeaweedFS, RustFS, Garage, Ceph, AWS), by plain S3 calls.

Owns the connection, its time-outs and the bucket. A store may be shared by threads but not by processes: open it
after a fork. `s3_upload` sends, `s3_errors` translates.
"""

from __future__ import annotations

import builtins
import hashlib
import ssl
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import certifi
from minio import Minio
from minio.commonconfig import ENABLED, ComposeSource, CopySource, Filter
from minio.datatypes import Object
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.helpers import MAX_PART_SIZE
from minio.lifecycleconfig import AbortIncompleteMultipartUpload, LifecycleConfig, Rule
from urllib3 import BaseHTTPResponse, PoolManager, Retry, Timeout

from app.kit.objects.base import (
    CHUNK_BYTES,
    DEFAULT_CONTENT_TYPE,
    BadKey,
    ByteStream,
    ObjectChanged,
    ObjectInfo,
    Stored,
    StoreUnavailable,
    attachment,
    check_content_type,
    check_expiry,
    check_key,
    check_prefix,
    clamp_range,
)
from app.kit.objects.folder import disk_errors
from app.kit.objects.s3_errors import s3_errors, translate
from app.kit.objects.s3_upload import Metered, cut, upload

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 120.0  # a server-side copy of gigabytes answers late
PROBE_TIMEOUT_S = 3.0
COPY_LIMIT_BYTES = MAX_PART_SIZE  # beyond this S3 copies in ranges only


class S3Store:
    """`endpoint` and `public_endpoint` are `host:port` or a URL, whose scheme then decides over `secure`.

    Memory of one upload: about (num_parallel_uploads + 2) * part_size bytes; its limit: 10 000 * part_size.
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
        def client(address: str, http: PoolManager) -> Minio:
            host, is_secure = _split_endpoint(address, secure)
            return Minio(host, access_key, secret_key, secure=is_secure, region=region, http_client=http)

        self._client = client(endpoint, _http(CONNECT_TIMEOUT_S, READ_TIMEOUT_S, retries=2))
        self._probe = client(endpoint, _http(PROBE_TIMEOUT_S, PROBE_TIMEOUT_S, retries=0))
        # With the region given minio signs without asking the server, so this client never connects.
        self._signer = client(public_endpoint or endpoint, _http(PROBE_TIMEOUT_S, PROBE_TIMEOUT_S, retries=0))
        self._bucket = bucket
        self._part_size = part_size
        self._num_parallel_uploads = num_parallel_uploads
        self._is_bucket_ready = False
        self._bucket_lock = threading.Lock()

    def put(
        self,
        key: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        max_bytes: int | None = None,
    ) -> Stored:
        metered = Metered(chunks, max_bytes)
        self._upload(check_key(key), cut(metered, self._part_size), content_type, {})
        return Stored(key, metered.size_bytes, metered.sha256)

    def put_file(self, key: str, path: Path, *, content_type: str = DEFAULT_CONTENT_TYPE) -> Stored:
        check_key(key)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            metered = Metered(iter(lambda: file.read(CHUNK_BYTES), b""))
            self._upload(key, _unchanged(metered, self._part_size, sha256), content_type, {"sha256": sha256})
        return Stored(key, metered.size_bytes, sha256)

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        response = self._get(check_key(key), 0, 0)
        info = _info_of(key, response)
        part = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            with disk_errors(), part.open("xb") as file:
                for chunk in _stream(key, response, info.size_bytes, CHUNK_BYTES):
                    file.write(chunk)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return info

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        check_key(key)
        first, stop = clamp_range(2**63, start, end)
        if first == stop:
            self.info(key)
            return iter(())
        try:
            response = self._get(key, first, 0 if end is None else stop - first)
        except _StartsBeyondEnd:
            return iter(())
        return _stream(key, response, int(response.headers["Content-Length"]), chunk_bytes)

    def info(self, key: str) -> ObjectInfo:
        check_key(key)
        self._prepare_bucket()
        with s3_errors(key):
            return _info_from(key, self._client.stat_object(self._bucket, key))

    def copy(self, source: str, target: str) -> ObjectInfo:
        check_key(target)
        found = self.info(source)
        if source == target:
            return found
        with s3_errors(source):
            if found.size_bytes <= COPY_LIMIT_BYTES:
                self._client.copy_object(self._bucket, target, CopySource(self._bucket, source))
            else:
                # Composing starts from blank metadata.
                self._client.compose_object(
                    self._bucket,
                    target,
                    [ComposeSource(self._bucket, source)],
                    metadata={"Content-Type": found.content_type},
                )
        return self.info(target)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        self._prepare_bucket()
        return self._pages(prefix)

    def delete(self, key: str) -> None:
        check_key(key)
        self._prepare_bucket()
        with s3_errors(key):
            self._client.remove_object(self._bucket, key)

    def delete_prefix(self, prefix: str) -> int:
        if not prefix:
            raise BadKey("An empty prefix would delete everything.")
        keys = [DeleteObject(info.key) for info in self.list(prefix)]
        with s3_errors():
            failed = builtins.list(self._client.remove_objects(self._bucket, keys))
        if failed:
            raise StoreUnavailable(f"{len(failed)} of {len(keys)} objects were not deleted ({failed[0].code}).")
        return len(keys)

    def presign_get(self, key: str, *, expires_s: int, download_name: str | None = None) -> str:
        headers = {"response-content-disposition": attachment(download_name)} if download_name else {}
        lifetime = timedelta(seconds=check_expiry(expires_s))
        return self._signer.presigned_get_object(self._bucket, check_key(key), lifetime, response_headers={**headers})

    def presign_put(self, key: str, *, expires_s: int) -> str:
        lifetime = timedelta(seconds=check_expiry(expires_s))
        check_key(key)
        self._prepare_bucket()  # the client who gets this URL could not
        return self._signer.presigned_put_object(self._bucket, key, lifetime)

    def check(self) -> None:
        with s3_errors():
            self._probe.bucket_exists(self._bucket)
