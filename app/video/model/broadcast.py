"""The drawn picture of a job as an RTSP stream on its node's media server. Pure."""

from __future__ import annotations

from app.inference.broadcast import MAX_FPS, MAX_PATH, PATH, Broadcast, BroadcastState
from app.video.model.drawn_video import read_fps, read_width
from app.video.model.reader import Reader

PLACE = "dag.broadcast"
KEYS = ("path", "fps", "width")


def read_broadcast(data: object, reader: Reader) -> Broadcast | None:
    """Parses {path, fps, width}, each of which may be missing; None: nothing is broadcast.

    Args:
        reader: raises its error, with the place, for another form.
    """
    if data is None:
        return None
    fields = reader.mapping(data, PLACE, most=len(KEYS))
    reader.only_keys(fields, PLACE, KEYS)
    path = reader.text(fields["path"], f"{PLACE}.path", most=MAX_PATH) if fields.get("path") else ""
    if path and PATH.fullmatch(path) is None:
        raise reader.problem(
            f"{PLACE}.path", "is no path of a stream", "Write letters, digits, '.', '_', '-', with '/' between parts."
        )
    fps = read_fps(fields, PLACE, reader, Broadcast.fps, most=MAX_FPS)
    return Broadcast(path, fps, read_width(fields, PLACE, reader, Broadcast.width))


def read_state(data: object, reader: Reader) -> BroadcastState:
    """Parses the state that a runner reports. Raises the reader's error, with the place."""
    fields = reader.mapping(data, "broadcast", most=len(BroadcastState.__annotations__))
    url, problem = fields.get("url"), fields.get("problem")
    return BroadcastState(
        url=reader.text(url, "broadcast.url", most=500) if url else "",
        is_sending=bool(fields.get("is_sending")),
        frames=reader.integer(fields.get("frames"), "broadcast.frames", least=0, most=1 << 53),
        connections=reader.integer(fields.get("connections"), "broadcast.connections", least=0, most=1 << 53),
        core_share=reader.number(fields.get("core_share"), "broadcast.core_share"),
        problem=reader.text(problem, "broadcast.problem") if problem else "",
    )
