"""One file to upload of each input: what is one already goes as it is, the rest into a zip that only stores."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.conversion.errors import NoImages
from app.kit.errors import BadInput, ModelmillError, NotFound


def require_file(path: Path, what: str) -> None:
    if not path.exists():
        raise NotFound(f"there is no {what} {path}", hint="Check the path.")
    if path.is_dir():
        raise BadInput(f"the {what} {path} is a folder", hint="Name the file itself.")


@contextlib.contextmanager
def bundled(model: Path) -> Iterator[Path]:
    """The model as it is; or a temporary zip with the files its weights lie in, as far as they are beside it.

    What is missing, and what is no model at all, the service says.
    """
    beside = [(place, path) for place in _places(model) if (path := model.parent / place).is_file()]
    if not beside:
        yield model
        return
    with _zip([(model.name, model), *beside]) as archive:
        yield archive


def _places(model: Path) -> list[str]:
    from app.conversion.toolchains.graph import external, parse

    try:
        return external.places(model.name, parse(model))
    except (ModelmillError, OSError):
        return []


@contextlib.contextmanager
def packed(images: Sequence[Path]) -> Iterator[Path]:
    """One file with all of them: a lone file as it is; folders and several files in a temporary zip."""
    for path in images:
        if not path.exists():
            raise NotFound(f"there is no {path}", hint="Images are a folder, a zip, pictures, .npy or .npz files.")
    if len(images) == 1 and images[0].is_file():
        yield images[0]
        return
    members = list(_members(images))
    if not members:
        raise NoImages(
            f"there are no pictures and no arrays in {', '.join(map(str, images))}",
            hint="Pictures are .jpg .png .bmp .webp .heic and the like; arrays are .npy or .npz.",
        )
    with _zip(members) as archive:
        yield archive


@contextlib.contextmanager
def _zip(members: Sequence[tuple[str, Path]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="modelmill-") as folder:
        archive = Path(folder) / "packed.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED, strict_timestamps=False) as target:
            for name, path in members:
                target.write(path, name)
        yield archive


def _members(images: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Names in the zip, unique whatever the folders are called."""
    for number, path in enumerate(images):
        prefix = "" if len(images) == 1 else f"{number:05d}_"
        if path.is_file():
            yield f"{prefix}{path.name}", path
            continue
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path)
            if file.is_file() and _is_sample(inside):
                yield f"{prefix}{inside.as_posix()}", file


def _is_sample(path: Path) -> bool:
    from app.conversion.toolchains.samples import KINDS

    return path.suffix.lower() in KINDS and not any(part.startswith(".") for part in path.parts)
