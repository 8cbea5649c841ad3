"""The sandbox entry points for a model in several files: the graph, and weights beside it or in one zip.

Names inside an archive, and locations inside a model, are never used as paths: unpacked files are numbered.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from app.conversion import object_keys
from app.conversion.errors import BadArchive, BadModelArchive, ModelTooLarge, ZipBomb
from app.conversion.intake import entries
from app.conversion.intake.archive import write_entry
from app.conversion.intake.entry_points import MergeRequest, MergeResult, ModelRequest, PlacesResult
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.graph import external
from app.kit.errors import BadInput

FILES_MAX = 20_000
"""Some exporters write a file for each weight."""


def places(request: ModelRequest, _: Progress) -> PlacesResult:
    """List the files with the weights of a model.

    Returns:
        {"places": paths relative to the model}; empty for a file that is not a model, which the check of the submission
        refuses.

    Raises:
        ExternalWeights: A path leads out of the model's folder.
    """
    path = Path(request["model"])
    try:
        model = graph.parse(path)
    except BadInput:
        return {"places": []}
    return {"places": external.places(path.name, model)}


def merge(request: MergeRequest, progress: Progress) -> MergeResult:
    """Merge a model and its weights into one file.

    Returns:
        {"is_merged"}: false for a zip without a model, which is left as it is.

    Raises:
        BadInput: The files are no model with its weights.
        ModelTooLarge: Together they are larger than a model may be.
    """
    path, max_bytes, folder = Path(request["model"]), request["max_bytes"], Path(request["unpack_to"])
    progress(0.0, "unpacking")
    files: dict[str, Path] = {}
    for number, packed in enumerate(filter(None, (request["weights"], str(path) if zipfile.is_zipfile(path) else ""))):
        files |= _unpack(Path(packed), folder / str(number), max_bytes)
    name = path.name
    if zipfile.is_zipfile(path):
        models = [name for name in files if name.lower().endswith(object_keys.MODEL_ENDING)]
        if not models:
            return {"is_merged": False}
        name = _require_only(models)
        path = files[name]
    progress(0.4, "taking in the weights")
    model = graph.parse(path)
    beside = _map_weights(name, external.places(name, model), files)
    external.take_in(name, model, beside, max_bytes=max_bytes - path.stat().st_size)
    progress(0.8, "writing the model")
    if model.ByteSize() > min(max_bytes, graph.PROTOBUF_BYTES_MAX):
        raise _too_large(max_bytes)
    Path(request["into"]).write_bytes(model.SerializeToString())
    return {"is_merged": True}


def _require_only(models: list[str]) -> str:
    if len(models) > 1:
        raise BadModelArchive(
            f"the zip holds {len(models)} models: {', '.join(models[:5])}",
            hint="Pack one .onnx file and its weights.",
            detail={"models": models[:100]},
        )
    return models[0]


def _map_weights(name: str, places: list[str], files: Mapping[str, Path]) -> dict[str, Path]:
    """Maps these paths, as the model has them, to files; files that came without folders match by name alone."""
    parent = PurePosixPath(name).parent
    plain = {PurePosixPath(other).name: path for other, path in files.items()}
    paths = {place: files.get(str(parent / place)) or plain.get(PurePosixPath(place).name) for place in places}
    return {place: path for place, path in paths.items() if path is not None}


def _unpack(archive: Path, into: Path, max_bytes: int) -> dict[str, Path]:
    """Unpacks a zip and returns the path of each file by its name; other information of the archive is not used."""
    try:
        return _write_members(archive, into, max_bytes)
    except (BadArchive, ZipBomb) as error:  # archive.extract would report errors about reference pictures
        raise BadModelArchive(error.message, hint=error.hint, detail=error.detail) from error


def _write_members(archive: Path, into: Path, max_bytes: int) -> dict[str, Path]:
    into.mkdir(parents=True)
    with _open(archive) as opened:
        directory = opened.infolist()
        if len(directory) > FILES_MAX:
            raise BadArchive(f"the zip has {len(directory)} entries", hint=f"At most {FILES_MAX} are taken.")
        files = entries.plain_files(directory)
        left = max_bytes
        if sum(entry.info.file_size for entry in files) > max_bytes:
            raise _too_large(max_bytes)
        entries.refuse_bomb([entry.info for entry in files], archive.stat().st_size, "the zip", max_bytes)
        unpacked = {}
        for number, entry in enumerate(files):
            path = into / str(number)
            with path.open("xb") as file:
                left -= write_entry(opened, entry, file, left)
            unpacked[entry.name] = path
        return unpacked


def _open(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except entries.READ_ERRORS as error:
        raise BadArchive("the zip is damaged or ends early", hint="Pack and send it again.") from error


def _too_large(max_bytes: int) -> ModelTooLarge:
    return ModelTooLarge(
        f"the model and its weights are larger than the {max_bytes:,} bytes that are allowed",
        hint="Send a smaller model.",
    )
