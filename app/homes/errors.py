"""Errors of data homes, one class per cause, and the conversion of disk errors into them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.kit.errors import BadInput, Conflict, Forbidden, ModelmillError, NotFound, TooLarge, Unavailable


class PathRefused(BadInput, code="PATH_REFUSED"):
    """A path that may not be used in this place. detail: problems, a list of {at: the field, problem: why}."""


class HomeMissing(NotFound, code="HOME_NOT_FOUND"): ...


class FileMissing(NotFound, code="FILE_NOT_FOUND"): ...


class NotAFile(Conflict, code="NOT_A_FILE"):
    """A folder, a device or a pipe is where a file is needed."""


class NotAFolder(Conflict, code="NOT_A_FOLDER"): ...


class NameTaken(Conflict, code="NAME_TAKEN"): ...


class HomeBusy(Conflict, code="HOME_BUSY", can_retry=True):
    """Another operation is changing the same folder."""


class HomeDenied(Forbidden, code="HOME_DENIED"):
    """The file belongs to another account of this machine: the service itself may not touch it."""


class QuotaExceeded(TooLarge, code="QUOTA_EXCEEDED"):
    """413, not 507: the user can fix it and the service is healthy, so it must not count as a failure of the service.

    detail: quota_bytes, used_bytes.
    """


class TooManyFiles(TooLarge, code="TOO_MANY_FILES"):
    """detail: quota_files, used_files."""


class HomeDiskFull(Unavailable, status=507, code="HOME_DISK_FULL"): ...


class HomeUnavailable(Unavailable, code="HOME_UNAVAILABLE"): ...


class LeadsOut(OSError):
    """A path that would leave its folder: by a link, by `..`, or by being absolute."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "leads out of the folder", path)


def make_refusal(field: str, reason: str, *, hint: str = "") -> PathRefused:
    """Returns the error about a path, with the field as its place."""
    return PathRefused(f"{field}: {reason}", hint=hint, detail={"problems": [{"at": field, "problem": reason}]})


def sentences(error: ModelmillError) -> str:
    """The problem and the hint, for a path that was not given in a field."""
    message = error.detail["problems"][0]["problem"] if isinstance(error, PathRefused) else error.message
    return f"{message.removesuffix('.')}. {error.hint}".strip()


@contextmanager
def disk_errors(shown: str, *, field: str = "path") -> Iterator[None]:
    """Converts an OSError into one of our errors. shown: the path as its user knows it; field: the field it was given
    in."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, shown, field) from error


def from_os_error(error: OSError, shown: str, field: str = "path") -> ModelmillError:
    if isinstance(error, LeadsOut):
        return make_refusal(
            field, f"{shown} leads out of where it may be, by a link", hint="Remove the link, or name a file."
        )
    make = _BY_ERRNO.get(error.errno or 0)
    if make is not None:
        return make(shown, field)
    return HomeUnavailable(
        f"The data homes cannot be used now ({os.strerror(error.errno or 0)}).", hint="Try again later."
    )


def _make_missing(shown: str, _: str) -> ModelmillError:
    return FileMissing(
        f"There is no {shown} here.", hint="Look at the folder again: it may have been moved or removed."
    )


def _make_not_a_folder(shown: str, _: str) -> ModelmillError:
    return NotAFolder(f"{shown} is no folder, or runs through something that is none.")


def _make_not_a_file(shown: str, _: str) -> ModelmillError:
    return NotAFile(f"{shown} is no file.", hint="Name a file, not a folder or a device.")


def _make_taken(shown: str, _: str) -> ModelmillError:
    return NameTaken(f"There is something at {shown} already.", hint="Choose another name, or remove what is there.")


def _make_busy(shown: str, _: str) -> ModelmillError:
    return HomeBusy(
        f"{shown} is being changed just now.", hint="Try again when the job or upload that writes there is done."
    )


def _make_full(_: str, __: str) -> ModelmillError:
    return HomeDiskFull("The disk of the data homes is full.", hint="Remove what is not needed, or tell the operator.")


def _make_read_only(_: str, __: str) -> ModelmillError:
    return HomeUnavailable("The disk of the data homes is read-only.", hint="Tell the operator.")


def _make_denied(shown: str, _: str) -> ModelmillError:
    return HomeDenied(f"The service has no right to {shown}.", hint="Ask the operator to correct its owner or mode.")


def _make_too_long(_: str, field: str) -> ModelmillError:
    return make_refusal(field, "a name in it is too long", hint="A name may have 255 bytes.")


def _make_unsuitable(shown: str, field: str) -> ModelmillError:
    return make_refusal(field, f"the storage does not take {shown}", hint="Choose another name.")


_BY_ERRNO: dict[int, Callable[[str, str], ModelmillError]] = {
    errno.ENOENT: _make_missing,
    errno.ENOTDIR: _make_not_a_folder,
    errno.EISDIR: _make_not_a_file,
    errno.ENXIO: _make_not_a_file,
    errno.EEXIST: _make_taken,
    errno.ENOTEMPTY: _make_busy,
    errno.EBUSY: _make_busy,
    errno.ETXTBSY: _make_busy,
    errno.EAGAIN: _make_busy,
    errno.ENOSPC: _make_full,
    errno.EDQUOT: _make_full,
    errno.EFBIG: _make_full,
    errno.EACCES: _make_denied,
    errno.EPERM: _make_denied,
    errno.EROFS: _make_read_only,
    errno.ENAMETOOLONG: _make_too_long,
    errno.EINVAL: _make_unsuitable,
    errno.EILSEQ: _make_unsuitable,
}
