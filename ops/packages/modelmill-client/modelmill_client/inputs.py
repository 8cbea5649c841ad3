"""What a conversion is given, as files to send: folders of images become one zip, weights beside a model go with it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Callable, Union

from modelmill_client.errors import NoImages

PathLike = Union[str, "os.PathLike[str]"]
OnBytes = Callable[[int], None]
KINDS = frozenset(
    (
        *(".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff"),
        *(".heic", ".heif", ".avif", ".ppm", ".pgm", ".npy", ".npz"),
    )
)
"""Endings of what can be a reference image."""
LABELS = frozenset(("labels.csv", "labels.json"))
"""What says what the images show; goes with them."""
REPORT_FOLDER = "report"
"""Where images to report on lie in what is sent; options["quantization"]["report_images"] says so."""
WEIGHTS = (".data", "_data", ".weights", ".bin")
"""Endings that are put behind a model's name for the file of its weights."""


@contextlib.contextmanager
def packed(images: Sequence[Path], kinds: Sequence[str] = (), report: Path | None = None) -> Iterator[Path]:
    """One file with all of them: a lone file as it is; folders and several files in a temporary zip.

    Args:
        images: Files and folders.
        kinds: Endings, with their dot, of what is taken from folders; those of KINDS when left out.
        report: A folder or file of images that is put into REPORT_FOLDER.

    Raises:
        NoImages: There is no such file, or none of these kinds; or a zip is to get images into REPORT_FOLDER.
    """
    reporting = [] if report is None else [report]
    for path in [*images, *reporting]:
        if not path.exists():
            raise NoImages(
                f"there is no {path}", hint="Reference samples are a folder, a zip, pictures, .npy or .npz files."
            )
    if report is not None and any(path.suffix.lower() == ".zip" for path in images):
        raise NoImages(
            "pictures to report on cannot be put into a zip",
            hint="Give the folder it was made of, or put them into a folder of it and name that in the options.",
        )
    if len(images) == 1 and images[0].is_file() and report is None:
        yield images[0]
        return
    chosen = frozenset(kinds) or KINDS
    members = list(_members(images, chosen))
    has_samples = any(Path(name).name not in LABELS for name, _ in members)
    set_aside = [(f"{REPORT_FOLDER}/{name}", path) for name, path in _members(reporting, chosen)]
    if not images:
        raise NoImages("no pictures and no arrays are given", hint="Name a folder, a zip or files.")
    if not has_samples or (reporting and not set_aside):
        raise NoImages(
            f"there are no pictures and no arrays in {', '.join(map(str, reporting if has_samples else images))}",
            hint="Pictures are .jpg .png .bmp .webp .heic and the like; arrays are .npy or .npz.",
        )
    with zipped([*members, *set_aside]) as archive:
        yield archive


@contextlib.contextmanager
def zipped(members: Sequence[tuple[str, Path]]) -> Iterator[Path]:
    """A temporary zip of these files under these names."""
    with tempfile.TemporaryDirectory(prefix="modelmill-") as folder:
        archive = Path(folder) / "packed.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED, strict_timestamps=False) as target:
            for name, path in members:
                target.write(path, name)
        yield archive


def weights_beside(model: Path) -> list[Path]:
    """Files beside a model that by their names hold its weights."""
    names = [f"{model.name}{ending}" for ending in WEIGHTS] + [f"{model.stem}{ending}" for ending in WEIGHTS]
    return [path for name in dict.fromkeys(names) if (path := model.parent / name).is_file()]


@contextlib.contextmanager
def parts(files: Sequence[tuple[str, Path]], on_bytes: OnBytes) -> Iterator[dict[str, Any]]:
    """The arguments of a multipart request that sends these fields from disk, in constant memory."""
    with contextlib.ExitStack() as stack:
        opened = [(field, path.name, stack.enter_context(path.open("rb"))) for field, path in files]
        yield {"files": [(field, (name, _Counted(file, on_bytes))) for field, name, file in opened]}


class _Counted:
    """A file that tells how much of it was read. httpx asks for its length through fileno."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.fileno = file.fileno
        self.seek = file.seek
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._on_bytes(len(data))
        return data


def _members(images: Sequence[Path], kinds: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Names in the zip, unique whatever the folders are called; labels keep theirs."""
    is_alone = sum(path.name not in LABELS for path in images) == 1
    for number, path in enumerate(images):
        prefix = "" if is_alone or path.name in LABELS else f"{number:05d}_"
        if path.is_file():
            yield f"{prefix}{path.name}", path
            continue
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path)
            is_hidden = any(part.startswith(".") for part in inside.parts)
            is_chosen = file.suffix.lower() in kinds or file.name in LABELS
            if file.is_file() and is_chosen and not is_hidden:
                yield f"{prefix}{inside.as_posix()}", file
