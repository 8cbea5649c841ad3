"""A decoder in the file of a model: Python text under the key `modelmill.decoder` of its metadata.

It is never imported here: it runs in a confined process of its own (`app.inference.enclosed_program`), which reads no
files but Python's and opens no sockets. Its answers are checked. A process that hangs or dies fails the picture, and is
replaced.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import MOST_DECODER_SOURCE, Decoder
from app.inference.preprocess_options import Preprocess, read_preprocess
from app.inference.preprocessing import Size
from app.kit.process.child_protocol import Message, receive, send
from app.kit.process.spawn import python_module, signal_group, spawn
from app.kit.sandbox.runner import child_environment
from app.kit.text.json_form import FormError
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import printable

PROGRAM = "app.inference.enclosed_program"
START_S, ANSWER_S = 60.0, 5.0
"""Seconds that loading the text, and reading the outputs of one picture, may take."""
MOST_ROWS, MOST_ANSWER = 10_000, 1 << 20
"""Boxes of a picture, and bytes of an answer."""
MOST_LABELS, MOST_SIDE, MOST_CLASS = 10_000, 8192, 1_000_000
MOST_TEXT = 300
HINT = "Correct the decoder in the model's file (modelmill models set-decoder), or choose another one."
logger = logging.getLogger(__name__)


class EnclosedFamily(Detector):
    """Implements ModelFamily. Threads may share it; their pictures are read one after the other.

    Args:
        source: the Python text.

    Raises:
        ModelUnusable: It cannot be loaded, or declares something that is not valid.
    """

    name = Decoder.ENCLOSED

    def __init__(self, source: str) -> None:
        if not source:
            raise ModelUnusable("the model's file has no decoder of its own", hint=HINT)
        if len(source.encode()) > MOST_DECODER_SOURCE:
            raise ModelUnusable(f"the model's own decoder is longer than {MOST_DECODER_SOURCE >> 10} KiB", hint=HINT)
        self._process = _DecoderProcess(source)
        weakref.finalize(self, self._process.end)
        try:
            declared = self._process.start()
            self.labels = _read_labels(declared.get("labels"))
            """Names of the classes that it declares; may be empty."""
            self.preprocess = _read_preprocess(declared.get("preprocess"))  # type: ignore[misc]  # each file declares its own
            self.usual_size = _read_size(declared.get("size"))  # type: ignore[misc]  # each file declares its own
        except InferenceFailed as error:
            raise ModelUnusable(error.message, hint=error.hint) from error
        except BaseException:
            self.close()
            raise

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return self.labels

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        return True

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        """See `Detector.find`.

        Raises:
            InferenceFailed: The decoder has failed, hung or died, or its answer is not valid.
        """
        described = [
            {"name": name, "shape": list(value.shape), "type": value.dtype.str} for name, value in outputs.items()
        ]
        header = {"outputs": described, "size": list(size), "floor": floor}
        blobs = [np.ascontiguousarray(value).tobytes() for value in outputs.values()]
        answer, parts = self._process.ask(header, blobs)
        if "error" in answer:
            raise InferenceFailed(
                f"the model's own decoder has failed: {printable(str(answer['error'])[:MOST_TEXT])}", hint=HINT
            )
        return _check_detections(answer, parts)

    def close(self) -> None:
        """Ends its process."""
        self._process.end()


class _DecoderProcess:
    """Started when it is needed, and ended if it does not answer in time."""

    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._is_over = False

    def start(self) -> Mapping[str, Any]:
        """Starts it, and returns what the text declares.

        Raises:
            InferenceFailed: It cannot be started, or the text cannot be loaded.
        """
        with self._lock:
            return self._start()

    def ask(self, header: JsonObject, blobs: Sequence[bytes]) -> Message:
        with self._lock:
            if self._process is None:
                self._start()
            return self._exchange(header, blobs, ANSWER_S)

    def end(self) -> None:
        self._is_over = True
        self._kill()

    def _start(self) -> Mapping[str, Any]:
        if self._is_over:
            raise InferenceFailed("the model is closed")
        ours, theirs = socket.socketpair()
        with theirs:
            command = python_module(PROGRAM, str(theirs.fileno()))
            try:
                self._process = spawn(command, env=child_environment(os.environ), pass_fds=[theirs.fileno()])
            except OSError as error:
                ours.close()
                raise InferenceFailed(f"the process for the model's own decoder cannot be started: {error}") from error
        self._end = ours
        declared, _ = self._exchange({}, [self._source], START_S)
        if "error" in declared:
            self._kill()
            raise InferenceFailed(
                f"the model's own decoder cannot be loaded: {printable(str(declared['error'])[:MOST_TEXT])}", hint=HINT
            )
        return declared

    def _exchange(self, header: JsonObject, blobs: Sequence[bytes], limit_s: float) -> Message:
        assert self._end is not None
        late = threading.Event()

        def end_late() -> None:
            late.set()
            self._signal()

        timer = threading.Timer(limit_s, end_late)
        timer.daemon = True
        timer.start()
        try:
            send(self._end, header, blobs)
            return receive(self._end, MOST_ANSWER)
        except (OSError, EOFError, ValueError) as error:
            self._kill()
            if late.is_set():
                message = f"the model's own decoder has not answered within {limit_s:g} s"
            elif isinstance(error, ValueError):
                message = "the model's own decoder has sent something that is no answer"
            else:
                message = "the process of the model's own decoder has ended"
            raise InferenceFailed(message, hint=HINT) from None
        finally:
            timer.cancel()

    def _signal(self) -> None:
        process = self._process
        if process is not None:
            signal_group(process.pid, signal.SIGKILL)

    def _kill(self) -> None:
        self._signal()
        process, self._process = self._process, None
        end, self._end = self._end, None
        if end is not None:
            end.close()
        if process is not None:
            process.wait()


def _check_detections(answer: Mapping[str, Any], parts: Sequence[bytes | memoryview]) -> Detections:
    count = answer.get("count")
    if (
        not isinstance(count, int)
        or not 0 <= count <= MOST_ROWS
        or [len(part) for part in parts] != [32 * count, 8 * count, 8 * count]
    ):
        raise InferenceFailed(f"the model's own decoder has to answer up to {MOST_ROWS} boxes", hint=HINT)
    corners, scores = (np.frombuffer(part, np.float64) for part in parts[:2])
    labels = np.frombuffer(parts[2], np.int64)
    if not (np.isfinite(corners).all() and np.isfinite(scores).all()):
        raise InferenceFailed("the model's own decoder answers with values that are no numbers", hint=HINT)
    if scores.min(initial=0) < 0 or scores.max(initial=0) > 1:
        raise InferenceFailed("the model's own decoder answers a score outside of 0..1", hint=HINT)
    if labels.min(initial=0) < 0 or labels.max(initial=0) > MOST_CLASS:
        raise InferenceFailed("the model's own decoder answers a class that is no index", hint=HINT)
    return Detections(corners.reshape(-1, 4).astype(np.float32), scores.astype(np.float32), labels.astype(np.intp))


def _read_labels(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > MOST_LABELS or not all(isinstance(name, str) for name in names):
        raise ModelUnusable("LABELS of the model's own decoder are no names", hint=HINT)
    return tuple(names)


def _read_preprocess(options: Any) -> Preprocess:
    try:
        return read_preprocess(options if isinstance(options, dict) else {"": options})
    except FormError as error:
        raise ModelUnusable(f"PREPROCESS of the model's own decoder: {error}", hint=HINT) from error


def _read_size(sides: Any) -> Size:
    is_size = isinstance(sides, list) and len(sides) == 2
    if not is_size or not all(isinstance(side, int) and 0 <= side <= MOST_SIDE for side in sides):
        raise ModelUnusable("SIZE of the model's own decoder is no width and height", hint=HINT)
    return sides[0], sides[1]
