"""Pictures in a folder, one picture, and arrays in an .npz."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.picture_codec import decode
from app.inference.prediction import Picture
from app.inference.sources.frames import LazyFrame
from app.inference.sources.refusals import describe

SUFFIXES = frozenset({".jpg", ".jpeg", ".png"})
FILE_BYTES_MAX = 64 << 20


class Pictures:
    """Files, one after the other. Each is read when its turn comes, so a folder may grow between two passes."""

    fps = 0.0
    is_endless = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def frames(self) -> Generator[LazyFrame, None, None]:
        for path in _list_pictures(self._path) if self._path.is_dir() else [self._path]:
            yield LazyFrame(path.name, partial(_read, path))


def _list_pictures(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    except OSError as error:
        raise SourceUnusable(f"the folder {folder.name} cannot be read: {describe(error)}") from error


def _read(path: Path) -> Picture:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise DamagedPicture(f"the file is larger than {FILE_BYTES_MAX >> 20} MB")
        return decode(path.read_bytes())
    except OSError as error:
        raise DamagedPicture(f"the file cannot be read: {describe(error)}") from error


class Arrays:
    """An .npz: x as float N×C×H×W in 0..1 or uint8 N×H×W×C, with C of 1 or 3; y, if present, has the classes. Others
    raise SourceUnusable."""

    fps = 0.0
    is_endless = False

    def __init__(self, path: Path) -> None:
        self._name = path.name
        values = _load(path)
        self._pictures = _as_pictures(values, path.name)
        self._truths = values.get("y")
        if self._truths is not None and self._truths.shape != (len(self._pictures),):
            raise SourceUnusable(f"{path.name}: y has to have one class for each of {len(self._pictures)} pictures")

    def frames(self) -> Generator[LazyFrame, None, None]:
        for index, picture in enumerate(self._pictures):
            truth = None if self._truths is None else int(self._truths[index])
            yield LazyFrame(f"{self._name}#{index}", _make_reader(picture), truth=truth)


def _make_reader(picture: Picture) -> Callable[[], Picture]:
    return lambda: picture


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in ("x", "y") if name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, MemoryError, zipfile.BadZipFile, zlib.error) as e:
        raise SourceUnusable(f"{path.name} cannot be read as .npz: {describe(e)}", hint="Save it with numpy.") from e


def _as_pictures(values: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[np.uint8]:
    x = values.get("x")
    if x is not None and x.ndim == 4:
        if x.dtype.kind == "f" and x.shape[1] in (1, 3):
            bytes_ = np.rint(np.clip(np.nan_to_num(x), 0, 1) * 255).astype(np.uint8)
            return _remove_single(bytes_.transpose(0, 2, 3, 1))
        if x.dtype == np.uint8 and x.shape[3] in (1, 3):
            return _remove_single(x)
    actual = "no x" if x is None else f"x of {x.dtype} {list(x.shape)}"
    raise SourceUnusable(
        f"{name} has {actual}, which are no pictures",
        hint="x has to be float [n, c, h, w] in 0..1 or uint8 [n, h, w, c], c being 1 or 3.",
    )


def _remove_single(pictures: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns gray pictures as H×W."""
    return np.ascontiguousarray(pictures[..., 0] if pictures.shape[3] == 1 else pictures)
