"""The object store: one contract, a folder or an S3 server behind it. Artifacts travel between workers through it."""

from app.kit.objects.base import (
    CHUNK_BYTES,
    BadKey,
    ObjectChanged,
    ObjectInfo,
    ObjectMissing,
    ObjectStore,
    Stored,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from app.kit.objects.factory import FilesystemOptions, S3Options, open_store
