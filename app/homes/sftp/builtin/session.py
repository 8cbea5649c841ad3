"""The SFTP requests of one session: each runs in a thread, so that a slow disk blocks nobody else."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, TypeVar

import asyncssh
from asyncssh.sftp import SFTPAttrs, SFTPName, SFTPVFSAttrs

from app.homes.errors import LeadsOut, from_os_error, sentences
from app.homes.names import to_text
from app.homes.sftp.builtin.home import OpenFile, SftpHome, to_shown_path

T = TypeVar("T")
BLOCK_BYTES = 4096
NAME_BYTES = 255
NO_LINKS = "links cannot be made here"
TYPED_MODE = 0o777
MAX_LOGGED = 50
"""Maximum number of reasons in one session: a user who moves a whole tree need not read each."""
STDERR = asyncssh.EXTENDED_DATA_STDERR


class SftpSession(asyncssh.SFTPServer):
    """One SFTP session.

    Args:
        chan: asyncssh's channel.
        home: the user's home; the session closes it.
        executor: runs file operations in its threads.
        on_use: called at each request.
    """

    def __init__(self, chan: Any, home: SftpHome, executor: Executor, on_use: Callable[[], None]) -> None:
        super().__init__(chan)
        self._home = home
        self._executor = executor
        self._on_use = on_use
        self._logged = 0

    async def _do(self, work: Callable[..., T], *arguments: Any) -> T:
        self._on_use()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def _run_at(self, work: Callable[..., T], path: bytes, *arguments: Any, is_probe: bool = False) -> T:
        """Runs an operation with a path. is_probe: a failure is not reported to the user."""
        try:
            return await self._do(work, path, *arguments)
        except OSError as error:
            reason = with_reason(error, path)
            if not is_probe and reason.errno != errno.ENOENT:
                self._tell_why(reason)
            raise reason from error

    # --- files --------------------------------------------------------------------------------------
    async def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> object:
        return await self._run_at(self._home.open, path, open_flags(pflags))

    async def close(self, file_obj: object) -> None:
        await self._do(self._home.close_file, file_obj)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        return await self._do(os.pread, _get_file(file_obj).fd, min(size, asyncssh.sftp.MAX_SFTP_READ_LEN), offset)

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        file = _get_file(file_obj)
        try:
            await self._do(file.write, data, offset)
        except OSError as error:
            if not file.is_told_full:
                file.is_told_full = True
                self._tell_why(with_reason(error))
            raise
        return len(data)

    async def fstat(self, file_obj: object) -> SFTPAttrs:
        return attrs_of(await self._do(os.fstat, _get_file(file_obj).fd))

    async def fsetstat(self, file_obj: object, attrs: SFTPAttrs) -> None:
        file = _get_file(file_obj)
        if attrs.size is not None:
            await self._do(file.resize, attrs.size)
        if (times := _read_times_ns(attrs)) is not None:
            await self._do(lambda: os.utime(file.fd, ns=times))

    async def fsync(self, file_obj: object) -> None:
        await self._do(os.fsync, _get_file(file_obj).fd)

    # --- paths --------------------------------------------------------------------------------------
    async def realpath(self, path: bytes) -> bytes:
        self._on_use()
        return to_shown_path(path)

    async def stat(self, path: bytes) -> SFTPAttrs:
        return attrs_of(await self._run_at(self._home.stat, path))

    async def lstat(self, path: bytes) -> SFTPAttrs:
        return attrs_of(await self._run_at(self._home.lstat, path))

    async def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Size and times. Owner and mode are ours and ignored: scp -r, tar, rsync and cp -p set them as they go."""
        if attrs.size is not None:
            await self._run_at(self._home.resize, path, attrs.size)
        if (times := _read_times_ns(attrs)) is not None:
            await self._run_at(self._home.set_times, path, times)

    async def lsetstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        await self.setstat(path, attrs)

    async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        for name, status in await self._run_at(self._home.scan, path):
            yield SFTPName(name, attrs=attrs_of(status))

    async def remove(self, path: bytes) -> None:
        await self._run_at(self._home.remove, path)

    async def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        """OpenSSH's command requests mode 777; its put -r the folder's own: it probes whether there is one."""
        await self._run_at(self._home.make_folder, path, is_probe=attrs.permissions != TYPED_MODE)

    async def rmdir(self, path: bytes) -> None:
        await self._run_at(self._home.remove_folder, path)

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._run_at(lambda target: self._home.rename(oldpath, target, replace=False), newpath)

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        await self._run_at(lambda target: self._home.rename(oldpath, target, replace=True), newpath)

    async def readlink(self, path: bytes) -> bytes:
        return await self._run_at(self._home.read_link, path)

    def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPPermissionDenied(NO_LINKS)

    def link(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPPermissionDenied(NO_LINKS)

    # --- the rest -----------------------------------------------------------------------------------
    async def statvfs(self, path: bytes) -> Any:
        space = await self._do(self._home.space)
        if isinstance(space, os.statvfs_result):
            return space
        limit, used = (size // BLOCK_BYTES for size in space)
        free = max(0, limit - used)
        return SFTPVFSAttrs(
            bsize=BLOCK_BYTES, frsize=BLOCK_BYTES, blocks=limit, bfree=free, bavail=free, namemax=NAME_BYTES
        )

    async def fstatvfs(self, file_obj: object) -> Any:
        return await self.statvfs(b"")

    async def exit(self) -> None:
        """Ends with an exit status, or scp would report a good copy as a failure."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._home.close)
        with suppress(OSError):  # the client is gone
            self.channel.exit(0)

    def format_user(self, uid: int | None) -> str:
        """The names of this machine's accounts are nobody's business."""
        return self._home.quota.user

    def format_group(self, gid: int | None) -> str:
        return "modelmill"

    def _tell_why(self, error: OSError) -> None:
        """On the session's stderr: OpenSSH's client shows no reason except "Failure"."""
        self._logged += 1
        if self._logged <= MAX_LOGGED:
            self.channel.write(f"modelmill: {error.strerror}\r\n".encode(), STDERR)


def with_reason(error: OSError, path: bytes = b"") -> OSError:
    """The error with its hint. A path that leads out is denied: SFTP version 3 has no name for it."""
    code = errno.EACCES if isinstance(error, LeadsOut) else error.errno or errno.EIO
    if not isinstance(error, LeadsOut) and error.strerror != os.strerror(code):
        return OSError(code, error.strerror)  # ours, and says it already
    reason = from_os_error(error, to_text(os.fsdecode(to_shown_path(path))))
    return OSError(code, sentences(reason))


def open_flags(pflags: int) -> int:
    """The flags of os.open for those of SFTP. RootedDirectory adds those that keep it from following links."""
    is_writing = pflags & (asyncssh.FXF_WRITE | asyncssh.FXF_APPEND)
    flags = (os.O_RDWR if pflags & asyncssh.FXF_READ else os.O_WRONLY) if is_writing else os.O_RDONLY
    if not is_writing:
        return flags
    for bit, flag in (
        (asyncssh.FXF_APPEND, os.O_APPEND),
        (asyncssh.FXF_CREAT, os.O_CREAT),
        (asyncssh.FXF_TRUNC, os.O_TRUNC),
        (asyncssh.FXF_EXCL, os.O_EXCL),
    ):
        if pflags & bit:
            flags |= flag
    return flags


def attrs_of(status: os.stat_result) -> SFTPAttrs:
    """What version 3 tells of a file. Not from_local, which looks up the names of this machine's accounts each time."""
    return SFTPAttrs(
        size=status.st_size,
        permissions=status.st_mode,
        uid=status.st_uid,
        gid=status.st_gid,
        nlink=status.st_nlink,
        atime=int(status.st_atime),
        mtime=int(status.st_mtime),
    )


def _get_file(file_obj: object) -> OpenFile:
    assert isinstance(file_obj, OpenFile)
    return file_obj


def _read_times_ns(attrs: SFTPAttrs) -> tuple[int, int] | None:
    if attrs.mtime is None:
        return None
    modified = int(attrs.mtime * 1e9) + (attrs.mtime_ns or 0)
    return (int(attrs.atime * 1e9) + (attrs.atime_ns or 0) if attrs.atime is not None else modified), modified
