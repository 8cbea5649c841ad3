"""Unpacks uploaded reference samples: a zip, or a single picture, .npy or .npz, recognized by its bytes.

Names inside an archive are never used as paths: files get generated flat names, inside one folder.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.conversion.errors import BadArchive, NoSamples, ZipBomb
from app.conversion.intake import entries
from app.conversion.intake.entries import READ_ERRORS, ArchiveEntry
from app.conversion.intake.entry_points import PackedSamples
from app.conversion.sample_kinds import LABELS, flatten_path
from app.kit.text.plain_text import names_text, reason_of

CHUNK_BYTES = 1 << 20
NAME_BYTES_MAX = 160
NAMED_AT_MOST = 10
ACCEPTED = "a zip of pictures (jpg, png, bmp, webp, ppm, gif, tif, avif, heic) or arrays (.npy, .npz), or one such file"

_BARE = (
    (b"\x93NUMPY", "samples.npy"),
    (b"\xff\xd8\xff", "picture.jpg"),
    (b"\x89PNG\r\n\x1a\n", "picture.png"),
    (b"BM", "picture.bmp"),
    (b"GIF8", "picture.gif"),
    (b"II*\x00", "picture.tif"),
    (b"MM\x00*", "picture.tif"),
    (b"P6", "picture.ppm"),
    (b"P5", "picture.ppm"),
)
_BRANDS = dict.fromkeys((b"avif", b"avis"), "avif") | dict.fromkeys(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "heic"
)
_OTHERS = (
    (b"version https://git-lfs", "a git-lfs pointer (run `git lfs pull` and send the file it fetches)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
)


@dataclass(frozen=True)
class Unpacked:
    """The content of an upload after unpacking."""

    files: list[str]
    """Names in the folder, in the archive's order."""
    ignored: list[str]
    """Entries of the archive that are neither samples nor labels."""
    labels: str = ""
    """Name in the folder of the file with the labels; empty if there is none."""


def unpack(samples: PackedSamples) -> Unpacked:
    """Unpack the samples of a request. See `extract`."""
    limits = samples["limits"]
    return extract(
        Path(samples["images"]),
        Path(samples["unpack_to"]),
        max_files=limits["max_images"],
        max_bytes=limits["unpacked_bytes"],
    )


def extract(upload: Path, into: Path, *, max_files: int, max_bytes: int) -> Unpacked:
    """Unpack the samples of an upload into a folder, which is created if missing. On failure nothing is left in it.

    Args:
        max_files: How many files may be unpacked.
        max_bytes: How many bytes they may have in all.

    Raises:
        BadArchive: The upload is no zip, is damaged or encrypted, or has hostile names or links.
        ZipBomb, SamplesTooLarge, NoSamples: It contains too much, or nothing.
    """
    with upload.open("rb") as file:
        head = file.read(64)
    bare = _strip_folders(head)
    if bare is not None:
        return _link_single(upload, into, bare, max_bytes)
    directory = _read_directory(upload, head)
    if entries.is_npz(directory):
        entries.refuse_bomb(directory, upload.stat().st_size, "the .npz file", max_bytes)
        return _link_single(upload, into, "samples.npz", max_bytes)
    chosen = entries.choose(directory, upload.stat().st_size, max_files=max_files, max_bytes=max_bytes)
    if not chosen.samples:
        raise _no_samples(chosen.ignored)
    names = _unpack(upload, into, [*chosen.samples, *chosen.labels], max_bytes)
    return Unpacked(names[: len(chosen.samples)], chosen.ignored, "".join(names[len(chosen.samples) :]))


def _strip_folders(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "picture.webp"
    if head[4:8] == b"ftyp" and head[8:12] in _BRANDS:
        return f"picture.{_BRANDS[head[8:12]]}"
    return next((name for mark, name in _BARE if head.startswith(mark)), None)


def _read_directory(upload: Path, head: bytes) -> list[zipfile.ZipInfo]:
    """Returns the archive's table of contents.

    Raises:
        BadArchive: It cannot be read.
    """
    try:
        with zipfile.ZipFile(upload) as archive:
            return archive.infolist()
    except READ_ERRORS as error:
        if head.startswith(b"PK\x03\x04"):
            raise BadArchive(
                "the zip is damaged or ends early: its table of contents cannot be read", hint="Pack and send it again."
            ) from error
        other = next((text for mark, text in _OTHERS if head.startswith(mark)), "no zip, picture or numpy array")
        raise BadArchive(f"the reference samples are {other}", hint=f"Send {ACCEPTED}.") from error


def _no_samples(ignored: list[str]) -> NoSamples:
    named = names_text(ignored, NAMED_AT_MOST)
    what = f"none of its {len(ignored)} files is a picture or an array ({named})" if ignored else "it is empty"
    return NoSamples(f"the zip holds no reference samples: {what}", hint=f"Send {ACCEPTED}.")


def _link_single(upload: Path, into: Path, name: str, max_bytes: int) -> Unpacked:
    """Treats the upload itself as the only sample file; links it if the file system supports that, else copies it."""
    entries.refuse_size(upload.stat().st_size, max_bytes)
    with _write_all_or_nothing(into) as written:
        try:
            os.link(upload, into / name)
        except OSError:
            with upload.open("rb") as source, _create(into / name, written) as file:
                shutil.copyfileobj(source, file, CHUNK_BYTES)
    return Unpacked([name], [])


def _unpack(upload: Path, into: Path, samples: list[ArchiveEntry], max_bytes: int) -> list[str]:
    names: list[str] = []
    taken: set[str] = set()
    left = max_bytes
    with _write_all_or_nothing(into) as written, zipfile.ZipFile(upload) as archive:
        for entry in samples:
            own = PurePosixPath(entry.name).name
            name = own if own in LABELS else _choose_free_name(flat_name(entry.name), taken)
            with _create(into / name, written) as file:
                left -= write_entry(archive, entry, file, left)
            if name.endswith(".npz"):
                _refuse_nested_bomb(into / name, entry.name, max_bytes)
            names.append(name)
    return names


def _create(path: Path, written: list[Path]) -> BinaryIO:
    """Creates a file and notes it as ours.

    Raises:
        FileExistsError: It exists already.
    """
    file = path.open("xb")
    written.append(path)
    return file


def write_entry(archive: zipfile.ZipFile, entry: ArchiveEntry, file: BinaryIO, limit: int) -> int:
    """Copy one entry, counting the bytes that are really unpacked.

    Args:
        limit: how many bytes may be written, whatever the archive declares.

    Returns:
        The number of bytes written.

    Raises:
        BadArchive: The entry is damaged.
        ZipBomb: It unpacks to more than it declares, or than the limit.
    """
    written = 0
    for chunk in _read_chunks(archive, entry):
        written += len(chunk)
        if written > min(limit, entry.info.file_size):
            raise ZipBomb(f"{entry.name} unpacks to more than the zip declares", hint="Pack the files again.")
        file.write(chunk)
    return written


def _read_chunks(archive: zipfile.ZipFile, entry: ArchiveEntry) -> Iterator[bytes]:
    """Reads an entry. Separate from writing, so that a full disk is not mistaken for a damaged archive.

    Raises:
        BadArchive: The entry is damaged.
    """
    try:
        with archive.open(entry.info) as source:
            while chunk := source.read(CHUNK_BYTES):
                yield chunk
    except READ_ERRORS as error:
        raise BadArchive(
            f"the zip is damaged: {entry.name} cannot be unpacked ({reason_of(error)})",
            hint="Pack and send it again.",
            detail={"entry": entry.name},
        ) from error


def _refuse_nested_bomb(path: Path, name: str, max_bytes: int) -> None:
    """Checks an .npz, which is a zip, too. One that cannot be read is left to the check of the samples."""
    try:
        with zipfile.ZipFile(path) as archive:
            directory = archive.infolist()
    except READ_ERRORS:
        return
    entries.refuse_bomb(directory, path.stat().st_size, name, max_bytes)


@contextmanager
def _write_all_or_nothing(into: Path) -> Iterator[list[Path]]:
    """Collects the files that are written; on an error they are removed, and so is the folder if it was created
    here."""
    is_new = not into.exists()
    into.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        if is_new:
            into.rmdir()
        raise


def flat_name(name: str) -> str:
    """Makes a file name of an entry's name: folders are joined by "__", unusual characters replaced by "_".

    It has at most NAME_BYTES_MAX bytes of UTF-8, keeps the ending, and is neither empty nor hidden.
    """
    stem, dot, ending = flatten_path(name).rpartition(".")
    room = NAME_BYTES_MAX - len(ending.encode()) - 1
    short = stem.lstrip(".-").encode()[:room].decode("utf-8", "ignore")
    return f"{short or 'sample'}{dot}{ending}"


def _choose_free_name(wish: str, taken: set[str]) -> str:
    """Returns the name, with a number before its ending if it is taken; case is ignored."""
    stem, _, ending = wish.rpartition(".")
    name, number = wish, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}_{number}.{ending}"
    taken.add(name.casefold())
    return name
