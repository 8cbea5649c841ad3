"""Objects in a folder: the default store, with the same contract as S3.

This module defines an object on disk (payload and metadata) and when it becomes visible. `folder` handles the folder
itself, its names, locks and symbolic links. Presigned URLs point at our own web process, which checks them with
`signing`.

Nothing is fsynced: after a crash of the machine an object may be lost or damaged, and a crash is a reset. A crash of a
process leaves at most a draft, which is deleted after a day. Objects are read-only (0444), and `copy` hard-links them.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from app.kit.errors import TooLarge
from app.kit.objects import folder
from app.kit.objects.base import (
    CHUNK_BYTES,
    DEFAULT_CONTENT_TYPE,
    BadKey,
    ByteStream,
    ObjectInfo,
    ObjectMissing,
    Stored,
    check_content_type,
    check_expiry,
    check_key,
    check_prefix,
    clamp_range,
)
from app.kit.objects.signed_urls import sign_url

MAX_META_BYTES = 4096


@dataclass(frozen=True)
class _Meta:
    """Metadata file of a payload. `modified_at` is seconds since 1970; a hard-linked copy has its own."""

    size_bytes: int
    sha256: str
    content_type: str
    modified_at: float


class FilesystemStore:
    """`root` is created if missing. `public_url` is the address of our web server, `secret` signs URLs to it."""

    def __init__(self, root: Path, *, public_url: str = "", secret: str = "") -> None:
        self._folder = folder.Folder(root)
        self._public_url = public_url
        self._secret = secret

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
        check_content_type(content_type)
        size_bytes, digest = 0, hashlib.sha256()
        with self._folder.draft() as (fd, draft):
            for chunk in chunks:
                size_bytes += len(chunk)
                if max_bytes is not None and size_bytes > max_bytes:
                    raise TooLarge(f"The object is larger than the limit of {max_bytes} bytes.")
                digest.update(chunk)
                folder.write_all(fd, chunk)
            self._commit(key, draft, _Meta(size_bytes, digest.hexdigest(), content_type, time.time()))
        return Stored(key, size_bytes, digest.hexdigest())

    def put_file(self, key: str, path: Path, *, content_type: str = DEFAULT_CONTENT_TYPE) -> Stored:
        check_key(key)
        check_content_type(content_type)
        with path.open("rb") as source, self._folder.draft() as (fd, draft):
            folder.copy_all(source.fileno(), fd)
            # Hash the stored bytes, not those that were read: the source may be changing.
            size_bytes, sha256 = _digest_file(fd)
            self._commit(key, draft, _Meta(size_bytes, sha256, content_type, time.time()))
        return Stored(key, size_bytes, sha256)

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        with self._open(key) as (fd, meta):
            part = path.with_name(f".{uuid.uuid4().hex}.part")
            try:
                _take(fd, part)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
            return _make_info(key, fd, meta)

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """See `ObjectStore.read`."""
        with self._open(key) as (fd, meta):
            position, stop = clamp_range(meta.size_bytes, start, end)
            own_fd = os.dup(fd)
        left_bytes = stop - position

        def read_some(size_bytes: int) -> bytes:
            nonlocal position
            with folder.disk_errors():
                data = os.pread(own_fd, size_bytes, position)
            position += len(data)
            return data

        return ByteStream(read_some, lambda: os.close(own_fd), left_bytes, chunk_bytes)

    def info(self, key: str) -> ObjectInfo:
        with self._open(key) as (fd, meta):
            return _make_info(key, fd, meta)

    def copy(self, source: str, target: str) -> ObjectInfo:
        check_key(target)
        with self._open(source) as (fd, meta):
            if source == target:
                return _make_info(source, fd, meta)
            copied = replace(meta, modified_at=time.time())
            with self._folder.twin(fd) as draft:
                self._commit(target, draft, copied)
            return _make_info(target, fd, copied)

    def join(self, sources: Sequence[str], target: str) -> ObjectInfo:
        check_key(target)
        if not sources:
            raise ValueError("nothing to join")
        with self._folder.draft() as (fd, draft):
            for source in sources:
                with self._open(source) as (source_fd, _):
                    folder.copy_all(source_fd, fd)
            size_bytes, sha256 = _digest_file(fd)
            self._commit(target, draft, _Meta(size_bytes, sha256, DEFAULT_CONTENT_TYPE, time.time()))
        return self.info(target)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        *segments, start = check_prefix(prefix).split("/")
        return self._walk(segments, start)

    def delete(self, key: str) -> None:
        self._remove(check_key(key))

    def delete_prefix(self, prefix: str) -> int:
        if not prefix:
            raise BadKey("An empty prefix would delete everything.")
        return sum(self._remove(info.key) for info in builtins.list(self.list(prefix)))

    def presign_get(self, key: str, *, expires_s: int, download_name: str | None = None) -> str:
        return self._presign("GET", key, expires_s, download_name)

    def presign_put(self, key: str, *, expires_s: int) -> str:
        return self._presign("PUT", key, expires_s, None)

    def check(self) -> None:
        with self._folder.opened("objects"), self._folder.draft() as (fd, _):
            folder.write_all(fd, b"ok")

    def _presign(self, method: str, key: str, expires_s: int, download_name: str | None) -> str:
        expires = int(time.time()) + check_expiry(expires_s)
        return sign_url(self._public_url, self._secret, method, check_key(key), expires, download_name=download_name)

    @contextmanager
    def _open(self, key: str) -> Iterator[tuple[int, _Meta]]:
        """Returns (descriptor, metadata) of one state of the object, which stays readable during changes."""
        *segments, name = check_key(key).split("/")
        try:
            with self._folder.locked(exclusive=False), self._folder.parent(segments) as parent_fd:
                fd = folder.open_plain(name + folder.PAYLOAD_SUFFIX, parent_fd)
                meta = _read_meta(name, parent_fd, os.fstat(fd))
        except FileNotFoundError:
            raise ObjectMissing(f"There is no object {key!r}.") from None
        try:
            yield fd, meta
        finally:
            os.close(fd)

    def _commit(self, key: str, draft: str, meta: _Meta) -> None:
        *segments, name = key.split("/")
        with self._folder.draft() as (fd, meta_draft):
            folder.write_all(fd, json.dumps(asdict(meta)).encode())
            with self._folder.locked(exclusive=True), self._folder.parent(segments, create=True) as parent_fd:
                # Metadata first: an object exists once its payload does; metadata alone is nothing.
                self._folder.publish(meta_draft, parent_fd, name + folder.META_SUFFIX)
                self._folder.publish(draft, parent_fd, name + folder.PAYLOAD_SUFFIX)

    def _remove(self, key: str) -> bool:
        *segments, name = key.split("/")
        with self._folder.locked(exclusive=True), suppress(FileNotFoundError):
            with self._folder.parent(segments) as parent_fd, folder.disk_errors():
                with suppress(FileNotFoundError):
                    os.unlink(name + folder.META_SUFFIX, dir_fd=parent_fd)
                os.unlink(name + folder.PAYLOAD_SUFFIX, dir_fd=parent_fd)
            self._folder.prune(segments)
            return True
        return False

    def _walk(self, segments: builtins.list[str], start: str) -> Iterator[ObjectInfo]:
        try:
            with self._folder.parent(segments) as parent_fd:
                names = [name for name in folder.names(parent_fd) if name.key.startswith(start)]
        except FileNotFoundError:
            return
        for name in names:
            if name.is_folder:
                yield from self._walk([*segments, name.key.removesuffix("/")], "")
            else:
                with suppress(ObjectMissing):  # deleted meanwhile
                    yield self.info("/".join([*segments, name.key]))


def _make_info(key: str, fd: int, meta: _Meta) -> ObjectInfo:
    stat = os.fstat(fd)
    etag = meta.sha256 or f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectInfo(key, meta.size_bytes, etag, datetime.fromtimestamp(meta.modified_at, UTC), meta.content_type)


def _read_meta(name: str, parent_fd: int, payload: os.stat_result) -> _Meta:
    """Returns the metadata, or what the payload alone tells if a crash or manual change came between the two."""
    try:
        fd = folder.open_plain(name + folder.META_SUFFIX, parent_fd)
        try:
            meta = _Meta(**json.loads(os.read(fd, MAX_META_BYTES)))
        finally:
            os.close(fd)
    except (FileNotFoundError, ValueError, TypeError):
        meta = None
    if meta is None or meta.size_bytes != payload.st_size:
        return _Meta(payload.st_size, "", DEFAULT_CONTENT_TYPE, payload.st_mtime)
    return meta


def _take(fd: int, path: Path) -> None:
    """Creates a new file with the content of an open object. Never a link to it: whoever owns the file, such as a
    toolchain in the hands of a hostile model, could change its mode, and then what others read."""
    with folder.disk_errors(folder.FULL_HERE), path.open("xb") as target:
        folder.copy_all(fd, target.fileno(), full=folder.FULL_HERE)


def _digest_file(fd: int) -> tuple[int, str]:
    """Returns (size in bytes, SHA-256) of a file from its start."""
    digest, position = hashlib.sha256(), 0
    while data := os.pread(fd, CHUNK_BYTES, position):
        digest.update(data)
        position += len(data)
    return position, digest.hexdigest()
