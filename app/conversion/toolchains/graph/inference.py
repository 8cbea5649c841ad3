"""onnx's shape inference, kept from making more than a graph deserves.

It also follows the values that shapes are computed from, and would write out every number of them: a few bytes that say
Range(0, 2**40) or Tile ask it for terabytes. So it works under a limit of memory, and without the values beyond that.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import shape_inference

FAILURES = (shape_inference.InferenceError, RuntimeError, ValueError, TypeError, MemoryError)
VALUES_BYTES = 256 << 20
COPIES = 4
"""How many times the model is held while it is inferred: as an object, as bytes, and both again for the result."""
PAGE_BYTES = resource.getpagesize()


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with what is known of its inner shapes. Raises one of FAILURES."""
    try:
        with _at_most(VALUES_BYTES + COPIES * model.ByteSize()):
            return shape_inference.infer_shapes(model, data_prop=True)
    except MemoryError:
        return shape_inference.infer_shapes(model)


@contextmanager
def _at_most(more_bytes: int) -> Iterator[None]:
    """Within the block this process may allocate so much more; then MemoryError is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * PAGE_BYTES
    wanted = held_bytes + more_bytes
    limits = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
