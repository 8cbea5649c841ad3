"""Converts failures of an S3 server into store errors. No secret ever gets into a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from app.kit.errors import ModelmillError, TooLarge
from app.kit.objects.base import ObjectMissing, StoreFull, StoreRefused, StoreUnavailable

_NO_ROOM = (
    StoreFull,
    "The object store is full: the S3 server has no room for this object",
    "Delete old jobs, or enlarge its disk or quota.",
)
_NO_RIGHT = (
    StoreRefused,
    "The S3 server refuses our credentials",
    "Check the access key, the secret key and the rights on the bucket.",
)
_KNOWN: dict[str, tuple[type[ModelmillError], str, str]] = {
    "QuotaExceeded": _NO_ROOM,
    "InsufficientCapacity": _NO_ROOM,
    "StorageFull": _NO_ROOM,
    "XMinioStorageFull": _NO_ROOM,
    "XMinioAdminBucketQuotaExceeded": _NO_ROOM,
    "AccessDenied": _NO_RIGHT,
    "InvalidAccessKeyId": _NO_RIGHT,
    "InvalidToken": _NO_RIGHT,
    "SignatureDoesNotMatch": _NO_RIGHT,
    "RequestTimeTooSkewed": (StoreRefused, "The S3 server refuses our clock", "Set the time of this machine (NTP)."),
    "EntityTooLarge": (TooLarge, "The object is larger than the S3 server accepts", ""),
    "NoSuchBucket": (StoreUnavailable, "The bucket is gone from the S3 server", "Try again: it is created if absent."),
}
_BUSY = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "Busy", "OperationAborted"})


@contextmanager
def s3_errors(key: str = "") -> Iterator[None]:
    """Converts errors of minio and urllib3 into ours: ObjectMissing (naming `key`), StoreFull, StoreRefused,
    StoreUnavailable, TooLarge."""
    try:
        yield
    except (MinioException, HTTPError) as error:
        # `from None`: the original contains the whole request, and a traceback may end in a log.
        raise translate(error, key) from None
    except (ValueError, ElementTree.ParseError):  # minio received a response that S3 would not send
        raise _make_not_s3() from None


def translate(error: MinioException | HTTPError, key: str = "") -> ModelmillError:
    """Converts an error of minio or urllib3 into a store error."""
    if isinstance(error, S3Error):
        return _from_code(error, key)
    if isinstance(error, ServerError):
        return _from_status(error.status_code)
    if isinstance(error, InvalidResponseError):
        return _make_not_s3()
    return StoreUnavailable(
        f"The S3 server cannot be reached ({_describe_cause(error)}).",
        hint="Check that it runs and that the S3 endpoint is right.",
    )


def _make_not_s3() -> StoreUnavailable:
    return StoreUnavailable(
        "The object store does not answer like an S3 server.", hint="Check the S3 endpoint: host and port."
    )


def _from_code(error: S3Error, key: str) -> ModelmillError:
    code = error.code or "unknown"
    if code == "NoSuchKey":
        return ObjectMissing(f"There is no object {key!r}.")
    if code in _KNOWN:
        cls, message, hint = _KNOWN[code]
        return cls(f"{message} ({code}).", hint=hint)
    if code in _BUSY or error.response.status >= 500:
        return _from_status(error.response.status)
    return StoreRefused(f"The S3 server refuses this request ({code}: {error.message}).")


def _from_status(status: int) -> ModelmillError:
    if status == 507:
        _, message, hint = _NO_ROOM
        return StoreFull(f"{message}.", hint=hint)
    return StoreUnavailable(f"The S3 server is in trouble (HTTP {status}).", hint="Try again in a moment.")


def _describe_cause(error: BaseException) -> str:
    """`ConnectTimeoutError` is clearer than the text around it, which is full of URLs."""
    inner = getattr(error, "reason", None)
    return type(inner if isinstance(inner, BaseException) else error).__name__
