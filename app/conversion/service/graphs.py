"""Which files of a job a graph viewer can open, and their bytes: ONNX as it is, a host NEF's model out of its zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from app.conversion import object_keys
from app.conversion.errors import ArtifactNotReady
from app.conversion.model import Artifact, JobRecord, Stage
from app.conversion.options import ToolchainName
from app.conversion.service import Conversion
from app.conversion.toolchains.base import OUTPUTS
from app.kit.objects import CHUNK_BYTES

BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class GraphFile:
    name: str
    """The artifact's name."""
    shown_as: str
    """A file name whose extension tells the viewer the format."""
    artifact: Artifact


def graph_files(record: JobRecord) -> list[GraphFile]:
    """In the order of the conversion. A vendor's BIE and NEF are encrypted or binary and cannot be shown."""
    is_host = record.options.toolchain is ToolchainName.HOST
    names = [(object_keys.MODEL, "model.onnx"), (OUTPUTS[Stage.ONNX], "out.onnx")]
    names += [(OUTPUTS[Stage.BIE], "out.bie.onnx"), (OUTPUTS[Stage.NEF], "out.nef.ort")] if is_host else []
    return [GraphFile(name, shown_as, record.artifacts[name]) for name, shown_as in names if name in record.artifacts]


def graph_file(record: JobRecord, name: str) -> GraphFile:
    """Returns the graph of this name.

    Raises:
        ArtifactNotReady: There is none; the error names those that there are.
    """
    files = graph_files(record)
    for file in files:
        if file.name == name:
            return file
    there = ", ".join(file.name for file in files) or "none"
    raise ArtifactNotReady(f"Job {record.job_id} has no graph {name!r} (yet).", hint=f"Graphs to look at: {there}.")


@dataclass(frozen=True)
class GraphBytes:
    size_bytes: int
    chunks: Iterator[bytes]


def graph_bytes(conversion: Conversion, file: GraphFile) -> GraphBytes:
    """Returns the model in a file.

    Raises:
        ObjectMissing: The file is gone.
        ArtifactNotReady: It is a NEF without a readable model.
    """
    if file.name != OUTPUTS[Stage.NEF]:
        return GraphBytes(file.artifact.size_bytes, conversion.jobs.read(file.artifact))
    from app.inference.runtimes.sessions import MODEL  # imported late because it loads numpy

    source = io.BufferedReader(_StoredFile(conversion, file.artifact), BUFFER_BYTES)
    try:
        archive = zipfile.ZipFile(source)
        info = archive.getinfo(MODEL)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ArtifactNotReady(f"{file.name} holds no {MODEL}.") from error
    return GraphBytes(info.file_size, _read_member(archive, info))


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive, archive.open(info) as member:
        while chunk := member.read(CHUNK_BYTES):
            yield chunk


class _StoredFile(io.RawIOBase):
    """An object of the store as a seekable file: only the requested bytes are downloaded."""

    def __init__(self, conversion: Conversion, artifact: Artifact) -> None:
        self._conversion = conversion
        self._artifact = artifact
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._artifact.size_bytes}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed: any buffer
        view = memoryview(buffer)
        end = min(self._at + len(view), self._artifact.size_bytes)
        if end <= self._at:
            return 0
        data = b"".join(self._conversion.jobs.read(self._artifact, self._at, end))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
