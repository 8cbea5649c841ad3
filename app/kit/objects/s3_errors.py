"""What an S3 server, or the lack of one, says — in the errors of the house. No secret ever gets into a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from app.kit.errors import ModelmillError, TooLarge
from app.kit.objects.base import ObjectMissing, StoreFull, StoreRefused, StoreUnavailable

_FULL = frozenset(
    {"QuotaExceeded", "InsufficientCapacity", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageFull"}
)
_CREDENTIALS = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidToken"})
_BUSY = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "Busy", "OperationAborted"})


@contextmanager
def s3_errors(key: str = "") -> Iterator[None]:
    """Raise ObjectMissing (naming `key`), StoreFull, StoreRefused, StoreUnavailable or TooLarge in place of
    whatever minio and urllib3 raise."""
    try:
        yield
    except (MinioException, HTTPError) as error:
        # `from None`: the original carries the whole request, and a traceback may end in a log.
        raise translate(error, key) from None


def translate(error: MinioException | HTTPError, key: str = "") -> ModelmillError:
    """The error of the house for one of minio or urllib3."""
    if isinstance(error, S3Error):
        return _from_code(error, key)
    if isinstance(error, ServerError):
        return _from_status(error.status_code)
    if isinstance(error, InvalidResponseError):
        return StoreUnavailable(
            "The object store does not answer like an S3 server.", hint="Check the S3 endpoint: host and port."
        )
    return StoreUnavailable(
        f"The S3 server cannot be reached ({_cause(error)}).",
        hint="Check that it runs and that the S3 endpoint is right.",
    )


def _from_code(error: S3Error, key: str) -> ModelmillError:
    code = error.code or "unknown"
    if code == "NoSuchKey":
        return ObjectMissing(f"There is no object {key!r}.")
    if code in _FULL:
        return StoreFull(f"The S3 server has no room for this object ({code}).", hint="Delete old jobs or raise quotas.")
    if code in _CREDENTIALS:
        return StoreRefused(
            f"The S3 server refuses our credentials ({code}).",
            hint="Check the access key, the secret key and the rights on the bucket.",
        )
    if code == "RequestTimeTooSkewed":
        return StoreRefused("The S3 server refuses our clock.", hint="Set the time of this machine (NTP).")
    if code == "EntityTooLarge":
        return TooLarge("The object is larger than the S3 server accepts.")
    if code == "NoSuchBucket":
        return StoreUnavailable("The bucket is gone from the S3 server.", hint="Try again: it is created on first use.")
    if code in _BUSY or error.response.status >= 500:
        return _from_status(error.response.status)
    return StoreRefused(f"The S3 server refuses this request ({code}: {error.message}).")


def _from_status(status: int) -> ModelmillError:
    if status == 507:
        return StoreFull("The S3 server has no room for this object.", hint="Delete old jobs or enlarge the disk.")
    return StoreUnavailable(f"The S3 server is in trouble (HTTP {status}).", hint="Try again in a moment.")


def _cause(error: BaseException) -> str:
    """`ConnectTimeoutError` says more than the URL-laden text of the error around it."""
    inner = getattr(error, "reason", None)
    return type(inner if isinstance(inner, BaseException) else error).__name__
