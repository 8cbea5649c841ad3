"""TensorBoard's event files, as programs write them."""

from __future__ import annotations

import time
from pathlib import Path


def write_events(folder: Path, name: str = "train/loss", count: int = 20) -> None:
    """A curve of so many points."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step in range(count):
        value = Summary.Value(tag=name, simple_value=1 / (step + 1))
        writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=[value])))
    writer.close()
