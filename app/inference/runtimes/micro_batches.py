"""Micro-batching: pictures of several streams that wait at the same time are computed by one call of the runtime."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.inference.errors import InferenceFailed
from app.inference.predictor_options import BatchOptions, ExecutionProvider
from app.inference.runtimes.base import Array, Runtime, Tensor


@dataclass
class _Entry:
    array: Array
    arrived: float
    outputs: dict[str, Array] = field(default_factory=dict)
    error: BaseException | None = None
    is_done: bool = False


class BatchingRuntime:
    """Implements runtimes.base for many threads, over a runtime whose first axis is free. It has no thread of its own:
    the caller whose picture is the oldest waits for others, and computes for all of them.

    Args:
        runtime: whose calls are saved.
        batching: how.
    """

    def __init__(self, runtime: Runtime, batching: BatchOptions) -> None:
        self._runtime, self._batching = runtime, batching
        self._waiting: deque[_Entry] = deque()
        self._calls = 0
        self._changed = threading.Condition()
        self.description = f"{runtime.description} · up to {batching.most} at once"
        self.why = runtime.why
        self.provider: ExecutionProvider = runtime.provider
        self.input: Tensor = runtime.input
        self.outputs: tuple[Tensor, ...] = runtime.outputs
        self.preprocess: Mapping[str, Any] = runtime.preprocess
        self.labels: tuple[str, ...] = runtime.labels
        self.decoder_source: str = runtime.decoder_source

    def run(self, array: Array) -> dict[str, Array]:
        entry = _Entry(array, time.monotonic())
        with self._changed:
            self._waiting.append(entry)
            self._changed.notify_all()
            self._changed.wait_for(lambda: entry.is_done or self._is_next(entry))
            batch = [] if entry.is_done else self._take(entry)
        if batch:
            try:
                _compute(self._runtime, batch)
            finally:
                with self._changed:
                    self._calls -= 1
                    for one in batch:
                        one.is_done = True
                    self._changed.notify_all()
        if entry.error is not None:
            raise entry.error
        return entry.outputs

    def run_several(self, arrays: Sequence[Array]) -> list[dict[str, Array] | InferenceFailed]:
        """Computes these in one call, at once. Returns for each its outputs, or why it cannot be computed."""
        batch = [_Entry(array, 0.0) for array in arrays]
        _compute(self._runtime, batch)
        for entry in batch:
            if entry.error is not None and not isinstance(entry.error, InferenceFailed):
                raise entry.error
        return [entry.error if isinstance(entry.error, InferenceFailed) else entry.outputs for entry in batch]

    def close(self) -> None:
        self._runtime.close()

    def _is_next(self, entry: _Entry) -> bool:
        return bool(self._waiting) and self._waiting[0] is entry and self._calls < self._batching.calls

    def _take(self, first: _Entry) -> list[_Entry]:
        """Returns the entries to compute together, after waiting for them. The caller holds the lock."""
        self._calls += 1
        left_s = first.arrived + self._batching.wait_s - time.monotonic()
        self._changed.wait_for(lambda: len(self._waiting) >= self._batching.most, max(0.0, left_s))
        batch = list[_Entry]()
        while self._waiting and len(batch) < self._batching.most and self._waiting[0].array.shape == first.array.shape:
            batch.append(self._waiting.popleft())
        self._changed.notify_all()
        return batch


def answers_alike(runtime: Runtime, arrays: Sequence[Array]) -> bool:
    """Whether the answers to these inputs are exactly the same one by one and in one call."""
    try:
        together = runtime.run(np.concatenate(arrays))
        alone = [runtime.run(array) for array in arrays]
    except InferenceFailed:
        return False
    return all(
        len(values) == len(arrays) and all(np.array_equal(values[n : n + 1], one[name]) for n, one in enumerate(alone))
        for name, values in together.items()
    )


def _compute(runtime: Runtime, batch: Sequence[_Entry]) -> None:
    """Fills in the outputs. A batch that fails is computed one by one, so that only those fail that cannot be."""
    try:
        outputs = runtime.run(np.concatenate([entry.array for entry in batch]))
        for number, entry in enumerate(batch):
            entry.outputs = {name: values[number : number + 1] for name, values in outputs.items()}
    except BaseException as error:  # noqa: BLE001  # raised where the pictures came from
        for entry in batch:
            entry.error = error
        if len(batch) > 1 and isinstance(error, InferenceFailed):
            for entry in batch:
                entry.error = None
                _compute(runtime, [entry])
