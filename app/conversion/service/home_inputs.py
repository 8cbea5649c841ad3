"""Files of data homes as inputs of a conversion: copied into an upload with the same limits as any other; and
thumbnails of them.

They stream from disk to store, so their size does not matter to this process. Their content is checked like every
upload. Imported by pages and by the wiring of training: the workers of the stages do not use homes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from app.conversion import object_keys
from app.conversion.errors import NoSamples
from app.conversion.intake.entry_points import MAKE_PICTURE, PictureRequest
from app.conversion.sample_kinds import KINDS, LABELS
from app.conversion.service.intake_sandbox import IntakeSandbox, aborts_refused
from app.conversion.service.uploads import FileParts, FileStart, Uploads
from app.homes.errors import FileMissing, NotAFile, PathRefused
from app.homes.model import Entry, Kind
from app.homes.read_only_tree import ReadOnlyTree
from app.kit.errors import BadInput, TooLarge
from app.kit.objects import Stored

ARCHIVE = ".zip"
PICTURE_BYTES_MAX = 64 << 20
PICTURE_MEMORY_BYTES = 2 << 30
SMALL_BYTES_MAX = 4 << 20
"""A hostile picture may have written any file in place of its small one."""
PICTURE_TIME_S = 20.0
PICTURE_TYPE = "image/jpeg"


class TooManySamples(BadInput, code="IMAGES_TOO_MANY"): ...


@dataclass(frozen=True)
class InputPath:
    tree: ReadOnlyTree
    """The files of the home, or of the common folder."""
    inner: str
    """The path in it."""

    @property
    def name(self) -> str:
        return self.inner.rpartition("/")[2]


@dataclass(frozen=True)
class HomeInputs:
    """Keys and names for the form of a new conversion."""

    model_key: str
    model_name: str
    quant_key: str
    quant_name: str


def copy_inputs(uploads: Uploads, owner: str, model: InputPath, samples: InputPath | None) -> HomeInputs:
    """Copies the inputs of a conversion from a data home; on an error nothing is kept.

    Args:
        model: An ONNX file, with its external weights beside it, or a zip of them.
        samples: a zip, one sample, or a folder of samples; None when they are chosen later.

    Raises:
        FileMissing, NotAFile, ModelTooLarge, SamplesTooLarge, TooManySamples, NoSamples: An input cannot be used.
    """
    with uploads.new(owner) as upload_id:
        model_key = copy_model(uploads, upload_id, model).key
        stored = _store_pictures(uploads, upload_id, samples) if samples else None
    return HomeInputs(model_key, model.name, stored.key if stored else "", samples.name if samples else "")


def copy_model(uploads: Uploads, upload_id: str, model: InputPath) -> Stored:
    """Copies a model of a data home into an upload, with its external weights. See `copy_inputs`."""
    stored = uploads.store_model(upload_id, model.tree.read(model.inner), model.name)
    beside = list(_iterate_weights(uploads, upload_id, model)) if _has_neighbours(model) else []
    if beside:
        uploads.store_weights(upload_id, _read(beside))
    return uploads.merge(upload_id) or stored


def _has_neighbours(model: InputPath) -> bool:
    """Whether a file beside it could contain its weights."""
    entries = model.tree.browse(model.inner.rpartition("/")[0]).entries
    return any(not entry.name.lower().endswith(object_keys.MODEL_ENDING) for entry in entries)


def _iterate_weights(uploads: Uploads, upload_id: str, model: InputPath) -> Iterator[tuple[str, InputPath]]:
    """The existing files of its external weights, each by its path relative to the model."""
    folder = model.inner.rpartition("/")[0]
    for place in uploads.places(upload_id):
        inner = f"{folder}/{place}".removeprefix("/")
        with suppress(FileMissing, PathRefused):
            if model.tree.info(inner).kind is Kind.FILE:
                yield place, InputPath(model.tree, inner)


def _read(files: Iterable[tuple[str, InputPath]]) -> FileParts:
    for place, file in files:
        yield FileStart(place)
        yield from file.tree.read(file.inner)


def is_sample(entry: Entry) -> bool:
    """A sample or label file of a folder. Hidden files are skipped, as in a zip."""
    ending = "." + entry.name.rpartition(".")[2].lower()
    is_chosen = ending in KINDS or entry.name in LABELS
    return entry.kind is Kind.FILE and not entry.name.startswith(".") and is_chosen


def is_archive(entry: Entry) -> bool:
    return entry.kind is Kind.FILE and entry.name.lower().endswith(ARCHIVE)


def _store_pictures(uploads: Uploads, upload_id: str, samples: InputPath) -> Stored:
    if samples.tree.info(samples.inner).kind is not Kind.FOLDER:
        return uploads.store_pictures(upload_id, _open_single(samples))
    return uploads.store_pictures(upload_id, _pack(samples, uploads.settings.max_images))


def _open_single(samples: InputPath) -> FileParts:
    yield FileStart(samples.name)
    yield from samples.tree.read(samples.inner)


def _pack(folder: InputPath, max_samples: int) -> FileParts:
    count = 0
    for entry in filter(is_sample, folder.tree.iterate_files(folder.inner)):
        count += 1
        if count > max_samples:
            raise TooManySamples(
                f"The folder {folder.name} has more than the {max_samples} samples that are accepted here.",
                hint="A hundred typical pictures are enough to calibrate: put some of them into a folder of their own.",
            )
        yield FileStart(entry.name)
        yield from folder.tree.read(entry.path)
    if not count:
        raise NoSamples(
            f"There is no reference sample in the folder {folder.name}.",
            hint=f"Samples are {', '.join(KINDS)}; or choose a zip of them.",
        )


def small_picture(intake: IntakeSandbox, tree: ReadOnlyTree, inner: str) -> bytes:
    """A thumbnail of a picture in a data home as JPEG; created each time, because browsers cache it.

    Raises:
        FileMissing, NotAFile, TooLarge, BadInput: There is no displayable picture at this path.
    """
    info = tree.info(inner)
    if info.kind is not Kind.FILE:
        raise NotAFile(f"{inner} is no file.", hint="Name a picture.")
    hint = "Download it to look at it."
    if info.size_bytes > PICTURE_BYTES_MAX:
        raise TooLarge(f"Pictures above {PICTURE_BYTES_MAX >> 20} MiB are not shown.", hint=hint)
    failure = f"{inner} cannot be shown"
    with intake.folder("picture-") as folder, aborts_refused(failure, hint=hint):
        with (folder / "picture").open("wb") as file:
            file.writelines(tree.read(inner))
        request: PictureRequest = {"picture": str(folder / "picture"), "into": str(folder / "small.jpg")}
        intake.run(MAKE_PICTURE, request, folder, memory_bytes=PICTURE_MEMORY_BYTES, time_s=PICTURE_TIME_S)
        with (folder / "small.jpg").open("rb") as file:
            small = file.read(SMALL_BYTES_MAX + 1)
    if len(small) > SMALL_BYTES_MAX:
        raise BadInput(f"{failure}.", hint=hint)
    return small
