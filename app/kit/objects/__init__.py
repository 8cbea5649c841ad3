"""The object store: one contract, a folder or an S3 server behind it. Artifacts travel between workers through it."""

from app.kit.objects.base import (
    CHUNK_BYTES,
    DEFAULT_CONTENT_TYPE,
    BadKey,
    ObjectChanged,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
    Stored,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    attachment,
    check_key,
)
from app.kit.objects.factory import FilesystemOptions, S3Options, open_store

__all__ = [
    "CHUNK_BYTES",
    "DEFAULT_CONTENT_TYPE",
    "BadKey",
    "FilesystemOptions",
    "ObjectChanged",
    "ObjectInfo",
    "ObjectMissing",
    "ObjectStore",
    "S3Options",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "Stored",
    "attachment",
    "check_key",
    "open_store",
]
