"""Identifies a file among the formats that this product makes or accepts, and reads its metadata. Nothing is
executed."""

from __future__ import annotations

import hashlib
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import onnx

from app.conversion.errors import NotOnnx
from app.conversion.intake.preprocess_recognition import recognize
from app.conversion.options import Chip
from app.conversion.sample_kinds import KINDS
from app.conversion.toolchains import graph
from app.inference.errors import InvalidModel
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject

ZIP_ERRORS = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError, LookupError)
HASH_CHUNK_BYTES = 1 << 20
LISTED_AT_MOST = 20
ZIP_MARK = b"PK\x03\x04"
CUT_ZIP = "it is a zip file, as a host NEF is, that ends early or is damaged: its table of contents cannot be read"


def inspect_file(path: Path, chip: Chip | None = None) -> JsonObject:
    """JSON-able facts. "kind": onnx, host-bie, host-nef, kneron-nef, zip or unknown; "name", "size_bytes" always.

    onnx, host-bie: graph.facts, "metadata"; "preprocessing", see Recognition.to_json, for an onnx that takes pictures;
    with a chip "operators_probably_missing". host-nef: "manifest", "files", "is_intact". kneron-nef: see
    kneron.nef.probe. zip: "entries", "samples". unknown: "reason".

    Raises:
        NotFound: There is no such file.
        TruncatedNef: It is a NEF that ends early.
        BadInput: It is an ONNX that cannot be used; see `graph.load`.
    """
    if not path.is_file():
        raise NotFound(f"there is no file {path}", hint="Check the path.")
    return {"name": path.name, "size_bytes": path.stat().st_size, **_inspect_file(path, chip)}


def damage(facts: JsonObject) -> str:
    """The problem of an inspected file, in a sentence; empty if there is none."""
    if facts["kind"] == "unknown":
        return f"{facts['name']}: {facts['reason']}"
    if facts["kind"] == "host-nef" and not facts["is_intact"]:
        return f"{facts['name']} is damaged: its content is not what its manifest says"
    if facts["kind"] == "kneron-nef":
        wrong = [what for what in ("crc_ok", "header_crc_ok") if not facts[what]]
        wrong += [f"crc_ok of model {model['id']}" for model in facts["models"] if model.get("crc_ok") is False]
        if wrong:
            return f"{facts['name']} is damaged: wrong checksums ({', '.join(wrong)})"
    return ""


def _inspect_file(path: Path, chip: Chip | None) -> JsonObject:
    if zipfile.is_zipfile(path):
        facts = _inspect_zip(path)
        if facts is not None:
            return facts
    with path.open("rb") as file:
        if file.read(len(ZIP_MARK)) == ZIP_MARK:
            return {"kind": "unknown", "reason": CUT_ZIP}
    facts = _inspect_kneron_nef(path)
    if facts is not None:
        return facts
    try:
        return _inspect_onnx(graph.load(path), chip)
    except NotOnnx as error:
        return {"kind": "unknown", "reason": error.message}


def _inspect_onnx(model: onnx.ModelProto, chip: Chip | None) -> JsonObject:
    from app.conversion.toolchains.host import provenance

    metadata = {prop.key: prop.value for prop in model.metadata_props}
    is_ours = any(key.startswith(provenance.PREFIX) for key in metadata)
    is_bie = is_ours and metadata.get(provenance.KIND, "bie") == "bie"
    facts = {"kind": "host-bie" if is_bie else "onnx", **graph.facts(model), "metadata": metadata}
    recognition = recognize(model)
    if recognition is not None and not is_ours:
        facts["preprocessing"] = recognition.to_json()
    if chip is not None:
        from app.conversion.toolchains.kneron.operators import probably_missing

        facts |= {"chip": chip.value, "operators_probably_missing": probably_missing(chip, model)}
    return facts


def _inspect_kneron_nef(path: Path) -> JsonObject | None:
    from app.conversion.toolchains.kneron import nef

    try:
        return {"kind": "kneron-nef", **nef.probe(path)}
    except nef.TruncatedNef:
        raise
    except nef.NotNef:
        return None


def _inspect_zip(path: Path) -> JsonObject | None:
    """A host NEF, or any other zip; None for a damaged one."""
    from app.inference.runtimes import sessions

    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            if sessions.MANIFEST in names and sessions.MODEL in names:
                return _inspect_host_nef(archive)
    except ZIP_ERRORS:
        return None
    samples = Counter(KINDS[suffix] for name in names if (suffix := PurePosixPath(name).suffix.lower()) in KINDS)
    return {"kind": "zip", "entries": len(names), "files": names[:LISTED_AT_MOST], "samples": dict(samples)}


def _inspect_host_nef(archive: zipfile.ZipFile) -> JsonObject:
    from app.inference.runtimes import sessions

    try:
        manifest = sessions.read_manifest(archive)
    except InvalidModel as error:
        return {"kind": "zip", "reason": error.message}
    promised = manifest.get("files")
    promised = promised if isinstance(promised, dict) else {}
    files = {name: _compare_member(archive, name, expected) for name, expected in promised.items()}
    is_intact = sessions.MODEL in files and all(entry["is_intact"] for entry in files.values())
    return {"kind": "host-nef", "is_intact": is_intact, "files": files, "manifest": manifest}


def _compare_member(archive: zipfile.ZipFile, name: str, expected: JsonObject) -> JsonObject:
    """Compares a member with the manifest, reading no more than that many bytes."""
    try:
        size = archive.getinfo(name).file_size
        digest = _compute_sha256(archive, name) if size == expected["size_bytes"] else ""
        return {"size_bytes": size, "sha256": digest, "is_intact": digest == expected["sha256"]}
    except (*ZIP_ERRORS, TypeError) as error:
        return {"is_intact": False, "reason": str(error).strip() or type(error).__name__}


def _compute_sha256(archive: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with archive.open(name) as member:
        while chunk := member.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
