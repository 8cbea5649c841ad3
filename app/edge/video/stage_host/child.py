"""A process that computes stages: `python -m app.edge.video.stage_host.child FD FORMAT LEVEL`, started by the host.

FD is its end of a socket pair; the other arguments configure logs. It handles one call at a time, and ends with its
host. Only models that are needed soon are opened beside that, in a thread.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np

from app.edge.video.stage_host.child_messages import (
    AnswerHeader,
    CallAnswer,
    CloseRequest,
    FieldPictures,
    OpenRequest,
    RunAnswer,
    RunRequest,
    StageContent,
)
from app.edge.video.stages.base import SEVERAL, ModelFile, Stage
from app.edge.video.stages.registry import stage_class
from app.inference.model_card import MODEL_CARD
from app.inference.picture_codec import encode
from app.inference.prediction import Picture
from app.kit.clock import ms_since
from app.kit.errors import ModelmillError
from app.kit.observability.logs import Format, Level, configure
from app.kit.process.child_protocol import receive, send
from app.kit.sandbox.errors import StageFailed
from app.kit.sandbox.kernel import die_with_parent
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import OUT_OF_MEMORY, reason_of

MOST_MEMORY = 2 << 30
"""Bytes of memory of its own that a child may have."""
ChildAnswer = tuple[AnswerHeader, list[bytes]]
logger = logging.getLogger(__name__)


class Child:
    """Holds the opened stages, and does what the host asks."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._ahead = ThreadPoolExecutor(1, "ahead")
        self._opening: dict[str, Future[Stage]] = {}
        """By variant, those that are being opened ahead."""
        self._verbs: dict[str, Callable[[Any, Sequence[bytes | memoryview]], ChildAnswer]] = {
            "open": self.open,
            "open_ahead": self.open_ahead,
            "close": self.close,
            "run": self.run,
        }

    def answer(self, header: Mapping[str, Any], blobs: Sequence[bytes | memoryview]) -> ChildAnswer:
        try:
            return self._verbs[header["do"]](header, blobs)
        except ModelmillError as error:
            return {"error": {**error.to_dict(), "status": error.status}}, []
        except MemoryError as error:
            return _make_failed(error), []
        except Exception as error:  # a stage may be foreign code
            logger.exception("The stage %s has raised", header.get("stage"))
            return _make_failed(error), []

    def open(self, header: OpenRequest, _: Sequence[bytes | memoryview]) -> ChildAnswer:
        """Opens a stage, if it is not open; one that is being opened ahead is waited for."""
        variant = header["variant"]
        if variant not in self._stages:
            opening = self._opening.pop(variant, None)
            self._stages[variant] = opening.result() if opening else _open(header)
        return {"runtime": str(self._stages[variant].runtime)}, []

    def open_ahead(self, header: OpenRequest, _: Sequence[bytes | memoryview]) -> ChildAnswer:
        """Starts to open a stage, unless it has. Says whether `open` would answer at once."""
        variant = header["variant"]
        if variant in self._stages:
            return {"is_ready": True}, []
        if variant not in self._opening:
            self._opening[variant] = self._ahead.submit(_open, header)
        return {"is_ready": self._opening[variant].done()}, []

    def close(self, header: CloseRequest, _: Sequence[bytes | memoryview]) -> ChildAnswer:
        for variant in header["variants"]:
            self._stages.pop(variant, None)
            self._opening.pop(variant, None)
        return {}, []

    def run(self, header: RunRequest, blobs: Sequence[bytes | memoryview]) -> ChildAnswer:
        """Computes all calls of the header. Each has its own answer: outputs or an error."""
        stage = self._stages[header["variant"]]
        began = time.perf_counter()
        rest, calls = iter(blobs), header["calls"]
        several = [{**call["fields"], **_read_pictures(call["pictures"], rest)} for call in calls]
        outcomes = _compute_several(stage, several) if len(several) > 1 else [stage.run(several[0])]
        answers, drawn = list[CallAnswer](), list[bytes]()
        for call, inputs, outcome in zip(calls, several, outcomes, strict=True):
            if isinstance(outcome, ModelmillError):
                answers.append({"error": {**outcome.to_dict(), "status": outcome.status}})
                continue
            outputs = {name: value for name, value in outcome.items() if name != "image"}
            if call["draw"]:
                drawn.append(encode(stage.draw(inputs["image"], inputs, outputs))[0])
            answers.append({"outputs": outputs, "is_drawn": call["draw"]})
        answer: RunAnswer = {"answers": answers, "ms": ms_since(began)}
        return answer, drawn


def _open(content: StageContent) -> Stage:
    files = [
        ModelFile(MODEL_CARD.read(each["card"]), Path(each["path"]), Path(each["twin"]) if each["twin"] else None)
        for each in content["models"]
    ]
    return stage_class(content["kind"])(files, content["parameters"])


def _compute_several(
    stage: Stage, several: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any] | ModelmillError]:
    try:
        outcomes: Sequence[Mapping[str, Any] | ModelmillError] = getattr(stage, SEVERAL)(several)
    except ModelmillError:  # of one of them: computed alone, each has its own
        return [_compute_outcome(stage, inputs) for inputs in several]
    return outcomes


def _compute_outcome(stage: Stage, inputs: Mapping[str, Any]) -> Mapping[str, Any] | ModelmillError:
    try:
        return stage.run(inputs)
    except ModelmillError as error:
        return error


def _read_pictures(described: Sequence[FieldPictures], rest: Iterator[bytes | memoryview]) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    for each in described:
        pictures: list[Picture] = [np.frombuffer(next(rest), np.uint8).reshape(shape) for shape in each["shapes"]]
        inputs[each["field"]] = pictures if each["is_clip"] else pictures[0]
    return inputs


def _make_failed(error: BaseException) -> JsonObject:
    is_memory = isinstance(error, MemoryError)
    return _make_refusal(OUT_OF_MEMORY if is_memory else f"{type(error).__name__}: {reason_of(error)}")


def _make_refusal(text: str) -> JsonObject:
    error = StageFailed(text)
    return {"error": {**error.to_dict(), "status": error.status}}


def run(end: socket.socket) -> None:
    child = Child()
    while True:
        try:
            header, blobs = receive(end)
        except (EOFError, OSError):
            return
        answer, drawn = child.answer(header, blobs)
        try:
            send(end, answer, drawn)
        except (TypeError, ValueError, RecursionError) as error:
            send(end, _make_refusal(f"Its outputs are no JSON: {error}"))
        except OSError:
            return


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the host ends us
    configure(cast(Format, sys.argv[2]), cast(Level, sys.argv[3]))
    os.dup2(2, 1)  # what a library prints is log
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    run(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
