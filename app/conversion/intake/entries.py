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

from app.conversion.errors import BadArchive, SamplesTooLarge, ZipBomb
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
"""Errors that zipfile and its decompressors raise for a damaged or unusual zip."""

RATIO_MAX = 200
RATIO_FROM_BYTES = 10_000_000
ENTRIES_PER_FILE_MAX = 10
"""How many entries a zip may have in all, as a multiple of the samples that it may have."""
ENCRYPTED = 0x1 | 0x40 | 0x2000
JUNK_FOLDER = "__MACOSX"
JUNK_FILES = frozenset({"Thumbs.db", "desktop.ini"})
ZIP_EPOCH_YEAR = 1980
"""numpy gives the members of an .npz the earliest possible date; a zip of .npy files has their dates."""


@dataclass(frozen=True)
class ArchiveEntry:
    """An entry of a zip, as its table of contents declares it."""

    name: str
    info: zipfile.ZipInfo


@dataclass(frozen=True)
class ChosenEntries:
    """The entries of a zip, by their use."""

    samples: list[ArchiveEntry]
    """The entries to unpack, in the zip's order."""
    labels: list[ArchiveEntry]
    """At most one."""
    ignored: list[str]
    """Names of the other files, except those that operating systems add."""


def is_npz(directory: Sequence[zipfile.ZipInfo]) -> bool:
    """Returns whether this zip is a numpy .npz, not a zip of .npy files."""
    return bool(directory) and all(
        info.filename.endswith(".npy") and info.date_time[0] <= ZIP_EPOCH_YEAR for info in directory
    )


def choose(directory: Sequence[zipfile.ZipInfo], zip_bytes: int, *, max_files: int, max_bytes: int) -> ChosenEntries:
    """Choose the entries to unpack.

    Args:
        directory: the entries as the zip lists them.
        zip_bytes: size of the whole zip, with which its declared content is compared.
        max_files: how many samples it may contain.
        max_bytes: how many bytes they may have unpacked.

    Raises:
        BadArchive, ZipBomb: The zip must not be unpacked.
        SamplesTooLarge: It holds too many samples, or too much.
    """
    if len(directory) > max_files * ENTRIES_PER_FILE_MAX:
        raise SamplesTooLarge(f"the zip has {len(directory)} entries", hint=f"At most {max_files} samples are taken.")
    files = plain_files(directory)
    samples = [entry for entry in files if PurePosixPath(entry.name).suffix.lower() in KINDS]
    if len(samples) > max_files:
        raise SamplesTooLarge(
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
    """Returns all files, except those that operating systems add.

    Raises:
        BadArchive: An entry must not be unpacked, or a name occurs twice.
    """
    for info in directory:
        _refuse_hostile(info)
    files = [
        ArchiveEntry(info.filename, info) for info in directory if not info.is_dir() and not _is_junk(info.filename)
    ]
    _refuse_duplicates(files)
    return files


def refuse_bomb(infos: Sequence[zipfile.ZipInfo], zip_bytes: int, what: str, max_bytes: int) -> None:
    """Compare the declared sizes of each entry with its packed size, and of all entries with the zip.

    Args:
        zip_bytes: size of the whole zip.
        what: how the message calls the zip.
        max_bytes: how many bytes all may have unpacked.

    Raises:
        ZipBomb: A ratio that no honest file has.
        SamplesTooLarge: More than may be unpacked.
    """
    for info in infos:
        _refuse_ratio(f"{info.filename} in {what}", info.file_size, info.compress_size)
    total = sum(info.file_size for info in infos)
    _refuse_ratio(what, total, zip_bytes)
    refuse_size(total, max_bytes)


def refuse_size(size_bytes: int, max_bytes: int) -> None:
    """Checks the size of all samples.

    Raises:
        SamplesTooLarge: They have more bytes than allowed.
    """
    if size_bytes > max_bytes:
        raise SamplesTooLarge(
            f"the reference samples take {size_bytes:,} bytes unpacked; {max_bytes:,} are allowed",
            hint="Send fewer or smaller samples.",
            detail={"size_bytes": size_bytes, "max_bytes": max_bytes},
        )


def _refuse_ratio(what: str, unpacked: int, packed: int) -> None:
    if unpacked > RATIO_FROM_BYTES and unpacked > RATIO_MAX * max(packed, 1):
        raise ZipBomb(
            f"{what} unpacks from {packed:,} to {unpacked:,} bytes, more than {RATIO_MAX} times its size",
            hint="If its content is real, pack it without compression (zip -0).",
            detail={"packed_bytes": packed, "unpacked_bytes": unpacked},
        )


def _refuse_hostile(info: zipfile.ZipInfo) -> None:
    reason = _find_hostility(info)
    if reason:
        raise BadArchive(
            f"the zip has an entry {info.orig_filename!r} {reason}",
            hint="Pack plain files and folders only, without a password.",
            detail={"entry": info.orig_filename},
        )


def _find_hostility(info: zipfile.ZipInfo) -> str:
    """Returns why an entry must not be unpacked; empty if it may."""
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
            f"the zip holds the name {name!r} {count} times", hint="Pack every file once.", detail={"entry": name}
        )


def _is_junk(name: str) -> bool:
    path = PurePosixPath(name)
    return JUNK_FOLDER in path.parts[:-1] or path.name.startswith(".") or path.name in JUNK_FILES
