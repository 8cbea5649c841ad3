"""The table of contents of an uploaded zip: what may be unpacked, and what makes the whole zip unacceptable."""

from __future__ import annotations

import lzma
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from app.conversion.errors import BadArchive, ImagesTooLarge, ZipBomb
from app.conversion.sample_kinds import KINDS, LABELS

READ_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    LookupError,
    TypeError,
    OverflowError,
    MemoryError,
    zlib.error,
    lzma.LZMAError,
)
"""What a damaged or unusual zip makes zipfile and its decompressors raise."""

RATIO_MAX = 200
RATIO_FROM_BYTES = 10_000_000
ENTRIES_PER_FILE_MAX = 10
"""A zip may hold this many times the allowed samples in entries that are none."""
ENCRYPTED = 0x1 | 0x40 | 0x2000
JUNK_FOLDER = "__MACOSX"
JUNK_FILES = frozenset({"Thumbs.db", "desktop.ini"})
ZIP_EPOCH_YEAR = 1980
"""numpy writes the members of an .npz with the earliest date there is; who zips .npy files keeps their dates."""


@dataclass(frozen=True)
class ArchiveEntry:
    name: str
    info: zipfile.ZipInfo


@dataclass(frozen=True)
class ChosenEntries:
    samples: list[ArchiveEntry]
    """The entries to unpack, in the zip's order."""
    labels: list[ArchiveEntry]
    """One or none."""
    ignored: list[str]
    """Names of the other files, without those that operating systems add."""


def is_npz(directory: Sequence[zipfile.ZipInfo]) -> bool:
    """Is this zip a numpy .npz, and not a zip of .npy files?"""
    return bool(directory) and all(
        info.filename.endswith(".npy") and info.date_time[0] <= ZIP_EPOCH_YEAR for info in directory
    )


def choose(directory: Sequence[zipfile.ZipInfo], zip_bytes: int, *, max_files: int, max_bytes: int) -> ChosenEntries:
    """The entries to unpack.

    Args:
        directory: the entries as the zip lists them.
        zip_bytes: size of the whole zip, against which its declared content is held.
        max_files: samples that may be in it.
        max_bytes: what they may unpack to.

    Raises:
        BadArchive, ZipBomb: The zip must not be unpacked.
        ImagesTooLarge: It holds too many samples, or too much.
    """
    if len(directory) > max_files * ENTRIES_PER_FILE_MAX:
        raise ImagesTooLarge(f"the zip has {len(directory)} entries", hint=f"At most {max_files} samples are taken.")
    files = plain_files(directory)
    samples = [entry for entry in files if PurePosixPath(entry.name).suffix.lower() in KINDS]
    if len(samples) > max_files:
        raise ImagesTooLarge(
            f"the zip holds {len(samples)} samples; at most {max_files} are taken",
            hint="Fewer, well chosen samples calibrate as well: a few hundred are plenty.",
            detail={"files": len(samples), "max_files": max_files},
        )
    labels = [entry for entry in files if PurePosixPath(entry.name).name in LABELS]
    if len(labels) > 1:
        raise BadArchive(
            f"the zip holds {len(labels)} files of labels: {', '.join(entry.name for entry in labels[:5])}",
            hint="Leave one of them, labels.csv or labels.json.",
        )
    refuse_bomb([entry.info for entry in (*samples, *labels)], zip_bytes, "the zip", max_bytes)
    return ChosenEntries(samples, labels, [entry.name for entry in files if entry not in (*samples, *labels)])


def plain_files(directory: Sequence[zipfile.ZipInfo]) -> list[ArchiveEntry]:
    """All files but the junk of operating systems. Raises BadArchive for what must not be unpacked, and for a name
    that comes twice."""
    for info in directory:
        _refuse_hostile(info)
    files = [
        ArchiveEntry(info.filename, info) for info in directory if not info.is_dir() and not _is_junk(info.filename)
    ]
    _refuse_duplicates(files)
    return files


def refuse_bomb(infos: Sequence[zipfile.ZipInfo], zip_bytes: int, what: str, max_bytes: int) -> None:
    """Check declared sizes: of each entry against its own packed size, of all against the zip.

    Args:
        zip_bytes: size of the whole zip.
        what: the zip, as it is called in the message.
        max_bytes: what all may unpack to.

    Raises:
        ZipBomb: A ratio that no honest file has.
        ImagesTooLarge: More than may be unpacked.
    """
    for info in infos:
        _refuse_ratio(f"{info.filename} in {what}", info.file_size, info.compress_size)
    total = sum(info.file_size for info in infos)
    _refuse_ratio(what, total, zip_bytes)
    refuse_size(total, max_bytes)


def refuse_size(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise ImagesTooLarge(
            f"the reference samples take {size_bytes:,} bytes unpacked; {max_bytes:,} are allowed",
            hint="Send fewer or smaller samples.",
            detail={"size_bytes": size_bytes, "max_bytes": max_bytes},
        )


def _refuse_ratio(what: str, unpacked: int, packed: int) -> None:
    if unpacked > RATIO_FROM_BYTES and unpacked > RATIO_MAX * max(packed, 1):
        raise ZipBomb(
            f"{what} unpacks from {packed:,} to {unpacked:,} bytes, more than {RATIO_MAX} times its size",
            hint="Send real pictures or arrays.",
            detail={"packed_bytes": packed, "unpacked_bytes": unpacked},
        )


def _refuse_hostile(info: zipfile.ZipInfo) -> None:
    reason = _hostility(info)
    if reason:
        raise BadArchive(
            f"the zip has an entry {info.orig_filename!r} {reason}",
            hint="Pack plain files and folders only, without a password.",
            detail={"entry": info.orig_filename},
        )


def _hostility(info: zipfile.ZipInfo) -> str:
    """Why an entry must not be unpacked; empty when it may."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    reasons = {
        "whose name holds a NUL character": "\0" in name,
        "whose name holds a backslash": "\\" in name,
        "with an absolute path": name.startswith("/") or re.match(r"[A-Za-z]:", name) is not None,
        "that points outside the folder": ".." in name.split("/"),
        "that is encrypted": bool(info.flag_bits & ENCRYPTED),
        "that is a symbolic link": kind == stat.S_IFLNK,
        "that is no plain file": kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _refuse_duplicates(files: Sequence[ArchiveEntry]) -> None:
    name, count = next(iter(Counter(entry.name for entry in files).most_common(1)), ("", 0))
    if count > 1:
        raise BadArchive(
            f"the zip holds the name {name!r} {count} times",
            hint="Pack every file once.",
            detail={"entry": name},
        )


def _is_junk(name: str) -> bool:
    path = PurePosixPath(name)
    return JUNK_FOLDER in path.parts[:-1] or path.name.startswith(".") or path.name in JUNK_FILES
