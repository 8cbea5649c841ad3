"""Broadcasts the pictures of a worker's streams with their answers, one stream for each source."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import OpenSample, SampleOutcome
from app.edge.joint.rows import objects_of
from app.edge.media.broadcaster import Broadcaster
from app.inference.annotations import draw
from app.inference.broadcast import Broadcast
from app.inference.prediction import Picture, Prediction
from app.kit.text.json_values import JsonObject

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SampleScene:
    """An answered sample that can be drawn."""

    number: int
    picture: Picture
    final: Prediction
    ids: Sequence[int | None]

    def drawn(self, labels: tuple[str, ...]) -> Picture:
        """Returns the picture with its boxes and their ids; the answer of a classifier is as large as the picture."""
        height, width = self.picture.shape[:2]
        return draw(self.picture, objects_of(self.final, (width, height)), labels, self.ids)


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
        self._numbers = count()
        joint.broadcast_by(self._show, self.states)

    def start(self) -> None:
        for broadcaster in self._broadcasters.values():
            broadcaster.start()

    def states(self) -> list[JsonObject]:
        """Returns the state of each, with the name of its source."""
        return [{"source": name, **broadcaster.state()} for name, broadcaster in self._broadcasters.items()]

    def close(self) -> None:
        for broadcaster in self._broadcasters.values():
            broadcaster.close()

    def _show(self, pending: OpenSample, outcome: SampleOutcome) -> None:
        """Offers an answered sample, and returns at once. A late one is older than what is shown."""
        row = pending.row
        if row.source in self._broadcasters and not row.is_late:
            scene = SampleScene(next(self._numbers), pending.picture, outcome.final, row.ids)
            self._broadcasters[row.source].show(scene)

    def _draw(self, scene: SampleScene) -> Picture:
        return scene.drawn(self._labels)


def _append_path(broadcast: Broadcast, *names: str) -> Broadcast:
    """Returns the broadcast under a path that ends with these names; empty ones do not count."""
    return replace(broadcast, path="/".join(filter(None, (broadcast.path, *names))))
