"""Broadcasts the pictures of a worker's streams with their answers, one stream for each source."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import OpenSample
from app.edge.joint.rows import objects_of
from app.edge.media.broadcaster import Broadcaster
from app.inference.annotations import draw
from app.inference.broadcast import Broadcast
from app.inference.prediction import Picture
from app.kit.text.json_values import JsonObject

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SampleScene:
    """A sample that can be drawn: with the final answer if it is known by then, otherwise with the edge's."""

    number: int
    pending: OpenSample

    def drawn(self, labels: tuple[str, ...]) -> Picture:
        """Returns the picture with its boxes; the answer of a classifier is as large as the picture."""
        picture, outcome = self.pending.picture, self.pending.outcome
        prediction = outcome.final if outcome is not None else self.pending.edge
        if prediction is None:
            return draw(picture, ())
        height, width = picture.shape[:2]
        return draw(picture, objects_of(prediction, (width, height)), labels)


class StreamBroadcasts:
    """For any thread.

    Args:
        joint: whose sources are broadcast, if its options say so; it reports their states.
        server: URL of the node's media server; empty: there is none.
        node: name that distinguishes this node's streams from those of the service's other nodes; empty: it has none.
    """

    def __init__(self, joint: JointInference, server: str, node: str = "") -> None:
        self._labels = joint.rows.labels
        self._broadcasters = dict[str, Broadcaster[SampleScene]]()
        broadcast = joint.options.broadcast
        if broadcast is None:
            return
        for name in (source.name for source in joint.options.sources):
            settings = _append_path(broadcast, node, name)
            self._broadcasters[name] = Broadcaster(settings, server, "", self._draw, logger.warning, owner="service")
        joint.broadcasts = self.states

    def start(self) -> None:
        for broadcaster in self._broadcasters.values():
            broadcaster.start()

    def show(self, name: str, number: int, pending: OpenSample) -> None:
        """Offers a sample, and returns at once.

        Args:
            name: of its source.
            number: of its frame.
            pending: the sample, answered or not.
        """
        if name in self._broadcasters:
            self._broadcasters[name].show(SampleScene(number, pending))

    def states(self) -> list[JsonObject]:
        """Returns the state of each, with the name of its source."""
        return [{"source": name, **broadcaster.state()} for name, broadcaster in self._broadcasters.items()]

    def close(self) -> None:
        for broadcaster in self._broadcasters.values():
            broadcaster.close()

    def _draw(self, scene: SampleScene) -> Picture:
        return scene.drawn(self._labels)


def _append_path(broadcast: Broadcast, *names: str) -> Broadcast:
    """Returns the broadcast under a path that ends with these names; empty ones do not count."""
    return replace(broadcast, path="/".join(filter(None, (broadcast.path, *names))))
