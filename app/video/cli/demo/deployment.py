"""The processes of a demonstration: the embedded stack, an agent of the cloud and one of the edge; of the
pseudo-distributed start, the ports at which they also answer, too. All of it ends with the block."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from app.inference.sources import open_video_source
from app.kit.cli.command import CannotStart
from app.kit.errors import BadInput
from app.nodes.cameras import video_of
from app.standalone.demonstration_stack import demonstration_stack
from app.standalone.nodes import node_part
from app.standalone.ports import require_free
from app.standalone.process import Part
from app.standalone.supervisor import Notice
from app.video.cli.demo.relays import Relay, running_relays

HOST, EDGE_HOST = "127.0.0.1", "127.0.0.2"
CLOUD, EDGE = "cloud0", "edge0"
Videos = Sequence[tuple[str, str]]
"""(type, path or URL) of each."""
SUFFIXES = frozenset({".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"})


@dataclass(frozen=True)
class Ports:
    """As the requirement numbers them: users 5000, tracker 5001, edge 5002, pictures 5100 and 5101, stages 5500."""

    users: int
    tracker: int
    edge: int
    pictures: int
    edge_pictures: int
    services: int

    def relays(self) -> list[Relay]:
        """The web passes calls of stages on to the cloud's host of stages, which wants a secret."""
        web, edge = (HOST, self.users), (EDGE_HOST, self.edge)
        return [
            Relay(self.tracker, web, "--tracker-port"),
            Relay(self.edge, edge, "--edge-port"),
            Relay(self.pictures, web, "--picture-port"),
            Relay(self.edge_pictures, edge, "--edge-picture-port"),
            Relay(self.services, web, "--service-port"),
        ]


@dataclass(frozen=True)
class DemoDeployment:
    """The processes of the demonstration."""

    url: str
    """Of the web."""
    folder: Path
    """Where everything is stored."""


@contextmanager
def running_deployment(ports: Ports, *, videos: Videos, data: Path | None, notice: Notice) -> Iterator[DemoDeployment]:
    """Web and nodes at the requirement's ports, until the block ends. See running_nodes.

    Args:
        ports: the requirement's.
        videos: of the edge node.
        data: where everything is stored; None: in a folder that is removed at the end.
        notice: receives the events of the processes.

    Raises:
        CannotStart: A port is taken, or a process did not start.
    """
    _require_free(ports.users)
    with (
        running_relays(ports.relays()),
        running_nodes(ports.users, edge_port=ports.edge, videos=videos, data=data, notice=notice) as deployment,
    ):
        yield deployment


@contextmanager
def running_nodes(
    port: int,
    *,
    edge_port: int = 0,
    videos: Videos,
    data: Path | None,
    notice: Notice,
    settings: Mapping[str, str] = MappingProxyType({}),
    parts: Sequence[Part] = (),
) -> Iterator[DemoDeployment]:
    """Web, scheduler, a cloud node and an edge node, until the block ends.

    Args:
        port: Of the web; 0: any that is free.
        edge_port: Of the edge node's agent; 0: any that is free.
        data: Where everything is stored; None: in a folder that is removed at the end.
        notice: Is told what happens to the processes.
        settings: Of the web and the scheduler: name of a variable → value.
        parts: What runs besides.

    Raises:
        CannotStart: The port is taken, or a process did not start.
    """
    folder = data.expanduser().absolute() if data else Path(tempfile.mkdtemp(prefix="modelmill-video-"))
    with demonstration_stack(port, folder, notice, is_kept=data is not None, settings=settings) as stack:
        stack.supervisor.start([*parts, *node_parts(stack.url, folder, videos, edge_port=edge_port)])
        yield DemoDeployment(stack.url, folder)


def _require_free(port: int) -> None:
    """Any free port will not do: plans and jobs name the requirement's."""
    try:
        require_free(HOST, port)
    except CannotStart as error:
        raise CannotStart(error.message, hint="Choose another --port, from 1 to 65535.") from error


def node_parts(url: str, folder: Path, videos: Videos, *, edge_port: int = 0, prefix: str = "") -> list[Part]:
    """The agents of the cloud and, with these videos, of the edge.

    Args:
        url: Of the web.
        folder: Of the agents' own folders.
        edge_port: Of the edge node's agent; 0: any that is free.
        prefix: Of the nodes' names.
    """
    named = [argument for kind, source in videos for argument in ("--video", f"{kind}={source}")]
    return [
        node_part(f"{prefix}{name}", side, url, folder / name, "--listen", f"{host}:{port}", "--bind", host, *others)
        for name, side, host, port, others in (
            (CLOUD, "cloud", HOST, 0, ()),
            (EDGE, "edge", EDGE_HOST, edge_port, named),
        )
    ]


def videos_of(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The videos of --video options, in their order; those of a folder by name.

    Raises:
        BadInput: There is no such file, or no video in the folder.
        SourceUnusable: PyAV is not installed.
    """
    videos = [entry for text in texts for entry in _parse_videos(text)]
    for _, source in videos:
        open_video_source(source)
    return videos


def _parse_videos(text: str) -> list[tuple[str, str]]:
    folder = Path(text).expanduser()
    if folder.is_dir():
        videos = [video_of(str(file)) for file in sorted(folder.iterdir()) if file.suffix.lower() in SUFFIXES]
        if not videos:
            raise BadInput(f"there is no video in {folder}", hint=f"Looked for are {', '.join(sorted(SUFFIXES))}.")
        return videos
    kind, source = video_of(text)
    if "://" not in source and not Path(source).exists():
        raise BadInput(f"there is no video {source}", hint="Give --videos a path that this machine has, or a URL.")
    return [(kind, source)]
