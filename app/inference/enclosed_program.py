"""The process of an enclosed decoder: `python -m app.inference.enclosed_program FD`.

FD is its end of a socket pair. The first message has the text, each later one the outputs of a picture. The process is
confined before it looks at either.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.kit.process.child_protocol import receive, send
from app.kit.sandbox import kernel, landlock, seccomp
from app.kit.sandbox.paths import of_python
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import reason_of

MEMORY_BYTES = 1 << 30
MOST_S = 60
"""Seconds of computation after which it ends by itself, if the process that would end it no longer exists."""
NOT_CONFINED = "this machine's kernel cannot confine it: it has no Landlock (Linux 5.13)"
LOADED = "own_decoder.py"


def main() -> None:
    os.dup2(2, 1)  # what it prints is log
    end = socket.socket(fileno=int(sys.argv[1]))
    is_confined = _confine()
    _, (source,) = receive(end)
    if not is_confined:
        send(end, {"error": NOT_CONFINED})
        return
    try:
        signal.alarm(MOST_S)
        module = _load(bytes(source).decode())
        send(end, _read_declared(module))
    except Exception as error:  # noqa: BLE001  # foreign code
        send(end, {"error": _describe_reason(error)})
        return
    while True:
        signal.alarm(0)
        try:
            header, blobs = receive(end)
        except (EOFError, OSError):
            return
        signal.alarm(MOST_S)
        try:
            answer, parts = _answer(module["decode"], header, blobs)
        except Exception as error:  # noqa: BLE001  # foreign code
            answer, parts = {"error": _describe_reason(error)}, []
        send(end, answer, parts)


def _confine() -> bool:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kernel.drop_rights()
    if not landlock.restrict(of_python()):
        return False
    seccomp.restrict()
    return True


def _load(source: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "own_decoder"}
    exec(compile(source, LOADED, "exec"), module)  # noqa: S102  # nosec B102  # what this confined process is for
    if not callable(module.get("decode")):
        raise TypeError("it has no function decode(outputs, size, floor)")
    return module


def _read_declared(module: Mapping[str, Any]) -> JsonObject:
    return {
        "labels": list(module.get("LABELS", ())),
        "preprocess": dict(module.get("PREPROCESS", {})),
        "size": list(module.get("SIZE", (0, 0))),
    }


def _answer(
    decode: Any, header: Mapping[str, Any], blobs: Sequence[bytes | memoryview]
) -> tuple[JsonObject, list[bytes]]:
    outputs = {
        each["name"]: np.frombuffer(blob, np.dtype(each["type"])).reshape(each["shape"])
        for each, blob in zip(header["outputs"], blobs, strict=True)
    }
    corners, scores, labels = decode(outputs, tuple(header["size"]), header["floor"])
    corners, scores = np.asarray(corners, np.float64).reshape(-1, 4), np.asarray(scores, np.float64).reshape(-1)
    labels = np.asarray(labels).reshape(-1)
    if labels.size and labels.dtype.kind not in "iu":
        raise TypeError("classes are indexes, whole numbers")
    if not len(corners) == len(scores) == len(labels):
        raise ValueError(f"{len(corners)} boxes have {len(scores)} scores and {len(labels)} classes")
    return {"count": len(corners)}, [corners.tobytes(), scores.tobytes(), labels.astype(np.int64).tobytes()]


def _describe_reason(error: Exception) -> str:
    """Returns what is wrong, with the line of the text."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == LOADED]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {reason_of(error)}{place}"


if __name__ == "__main__":
    main()
