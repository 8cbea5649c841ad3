"""The connection to an S3 server: addresses, timeouts, the bucket. It does not handle objects."""

from __future__ import annotations

import logging
import ssl
import threading
from functools import cache
from urllib.parse import urlsplit

import certifi
from minio import Minio
from minio.commonconfig import ENABLED, Filter
from minio.error import S3Error
from minio.helpers import check_bucket_name
from minio.lifecycleconfig import AbortIncompleteMultipartUpload, LifecycleConfig, Rule
from urllib3 import PoolManager, Retry, Timeout

from app.kit.objects.s3_errors import s3_errors

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 120.0  # a server-side copy of gigabytes answers late
PROBE_TIMEOUT_S = 3.0
STALE_UPLOAD_DAYS = 1
_TAKEN = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists", "OperationAborted")
_log = logging.getLogger(__name__)


class Connection:
    """Three clients of one server: `client` for work, `probe`, which fails fast, and `signer`, which never connects.

    Args:
        endpoint: see `S3Store`.
        secure: HTTPS.
        public_endpoint: the endpoint in signed URLs; None: the same.
    """

    def __init__(
        self, endpoint: str, access_key: str, secret_key: str, region: str, *, secure: bool, public_endpoint: str | None
    ) -> None:
        def client(address: str, http: PoolManager) -> Minio:
            host, is_secure = split_endpoint(address, secure=secure)
            return Minio(host, access_key, secret_key, secure=is_secure, region=region, http_client=http)

        fast = _make_pool(PROBE_TIMEOUT_S, PROBE_TIMEOUT_S, retries=0)
        self.client = client(endpoint, _make_pool(CONNECT_TIMEOUT_S, READ_TIMEOUT_S, retries=2))
        self.probe = client(endpoint, fast)
        # With the region, minio signs without a request to the server.
        self.signer = client(public_endpoint or endpoint, fast)


class Bucket:
    """One bucket, created before its first use."""

    def __init__(self, client: Minio, name: str, region: str) -> None:
        check_bucket_name(name, strict=True)  # raise ValueError now, not at the first upload
        self.name = name
        self._client = client
        self._region = region
        self._is_ready = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Creates the bucket if it is missing; contacts the server once.

        Raises:
            StoreUnavailable: The server does not answer.
            StoreRefused: It does not allow it.
        """
        with self._lock:
            if self._is_ready:
                return
            with s3_errors():
                if not self._client.bucket_exists(self.name):
                    self._create()
            self._is_ready = True

    def forget(self) -> None:
        """Checks again next time: the server may have lost its buckets."""
        self._is_ready = False

    def _create(self) -> None:
        try:
            self._client.make_bucket(self.name, self._region)
        except S3Error as error:
            if error.code not in _TAKEN:
                raise
            self._client.bucket_exists(self.name)  # raises if it belongs to somebody else
            return
        rule = Rule(
            ENABLED,
            rule_filter=Filter(prefix=""),
            rule_id="stale-uploads",
            abort_incomplete_multipart_upload=AbortIncompleteMultipartUpload(STALE_UPLOAD_DAYS),
        )
        try:
            self._client.set_bucket_lifecycle(self.name, LifecycleConfig([rule]))
        except S3Error as error:
            _log.info("the S3 server takes no lifecycle rule (%s): parts of broken uploads stay there", error.code)


def split_endpoint(endpoint: str, *, secure: bool) -> tuple[str, bool]:
    """Parses `host:port` or a URL into (`host:port`, is TLS).

    Raises:
        ValueError: It has a path, credentials or no host.
    """
    url = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    if url.scheme not in ("", "http", "https") or not url.hostname or url.path not in ("", "/") or url.query:
        raise ValueError("an S3 endpoint is host:port, http://host:port or https://host:port")
    if "@" in url.netloc:
        raise ValueError("an S3 endpoint holds no credentials: give them as access key and secret key")
    return url.netloc, url.scheme == "https" if url.scheme else secure


@cache
def _trust() -> ssl.SSLContext:
    """The authorities of certificates, read once in a process: that takes 30 ms of CPU each time."""
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())  # a slim image has no certificates of its own
    return trusted


def _make_pool(connect_s: float, read_s: float, *, retries: int) -> PoolManager:
    return PoolManager(
        maxsize=32,
        timeout=Timeout(connect=connect_s, read=read_s),
        ssl_context=_trust(),
        retries=Retry(
            total=retries,
            backoff_factor=0.2,
            status_forcelist=[500, 502, 503, 504],
            raise_on_status=False,  # the response says more than "too many retries"
            respect_retry_after_header=False,
        ),
    )
