"""An object store that measures the duration and failures of its operations, which another store carries out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.kit.errors import ModelmillError
from app.kit.objects.base import CHUNK_BYTES, DEFAULT_CONTENT_TYPE, ObjectInfo, ObjectStore, Stored
from app.kit.observability.metrics import STORE_ERRORS, STORE_SECONDS


class TimedStore:
    """Links are created without a request to the store, so they are not timed; for a stream, only its opening is."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.presign_get = store.presign_get
        self.presign_put = store.presign_put

    def put(
        self,
        key: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        max_bytes: int | None = None,
    ) -> Stored:
        """See `ObjectStore.put`."""
        with timed("put"):
            return self.store.put(key, chunks, content_type=content_type, max_bytes=max_bytes)

    def put_file(self, key: str, path: Path, *, content_type: str = DEFAULT_CONTENT_TYPE) -> Stored:
        with timed("put_file"):
            return self.store.put_file(key, path, content_type=content_type)

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        with timed("get_file"):
            return self.store.get_file(key, path)

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """See `ObjectStore.read`."""
        with timed("read"):
            return self.store.read(key, start=start, end=end, chunk_bytes=chunk_bytes)

    def info(self, key: str) -> ObjectInfo:
        with timed("info"):
            return self.store.info(key)

    def copy(self, source: str, target: str) -> ObjectInfo:
        with timed("copy"):
            return self.store.copy(source, target)

    def join(self, sources: Sequence[str], target: str) -> ObjectInfo:
        with timed("join"):
            return self.store.join(sources, target)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with timed("list"):
            return self.store.list(prefix)

    def delete(self, key: str) -> None:
        with timed("delete"):
            self.store.delete(key)

    def delete_prefix(self, prefix: str) -> int:
        with timed("delete_prefix"):
            return self.store.delete_prefix(prefix)

    def check(self) -> None:
        with timed("check"):
            self.store.check()


@contextmanager
def timed(operation: str) -> Iterator[None]:
    begin = time.perf_counter()
    try:
        yield
    except ModelmillError as error:
        STORE_ERRORS.labels(operation, error.code).inc()
        raise
    finally:
        STORE_SECONDS.labels(operation).observe(time.perf_counter() - begin)
