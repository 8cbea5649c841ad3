"""Which pictures of a worker's streams are broadcast, and what is said of it."""

from __future__ import annotations

import numpy as np

from app.edge.joint.joint import JointInference
from app.edge.joint.stream_broadcasts import SampleScene, StreamBroadcasts
from app.edge.media.broadcaster import NO_SERVER
from app.inference.annotations import draw
from app.inference.broadcast import Broadcast
from app.inference.prediction import Box, Picture, Prediction
from app.joint_inference.hard_examples import make
from app.joint_inference.model.sources import NamedSource, SourceBroadcast, source_broadcasts
from app.joint_inference.worker_options import EdgeOptions

PICTURE: Picture = np.full((90, 120, 3), 90, np.uint8)
LABELS = ("cat", "dog")
DOOR = Broadcast("door")
EDGE = Prediction(boxes=(Box(10, 30, 50, 70, 0.5, 0),))


class Small:
    labels = LABELS

    def predict(self, picture: Picture) -> Prediction:  # the real one's
        return EDGE


def scene(final: Prediction, *ids: int) -> SampleScene:
    return SampleScene(1, PICTURE, final, ids)


def broadcasts(*names: str, node: str = "", broadcast: Broadcast | None = DOOR) -> JointInference:
    options = EdgeOptions(sources=tuple(NamedSource(name, "/clip.mp4") for name in names), broadcast=broadcast)
    joint = JointInference(Small(), make("EdgeOnly", {}), options, big_model=None, service="s")
    StreamBroadcasts(joint, "rtsp://ann:hunter2@10.0.0.7/in/", node)
    return joint


def urls(joint: JointInference) -> list[str]:
    return [one.url for one in source_broadcasts(joint.status_report()["detail"])]


def test_the_answer_is_drawn_with_the_ids_of_its_objects() -> None:
    assert np.array_equal(scene(EDGE).drawn(LABELS), draw(PICTURE, EDGE.boxes, LABELS))
    assert np.array_equal(scene(EDGE, 7).drawn(LABELS), draw(PICTURE, EDGE.boxes, LABELS, [7]))
    assert np.array_equal(scene(Prediction()).drawn(LABELS), PICTURE)


def test_the_answer_of_a_classifier_is_as_large_as_the_picture() -> None:
    whole = Box(0, 0, 120, 90, 0.75, 1)
    assert np.array_equal(scene(Prediction(probabilities=(0.25, 0.75))).drawn(LABELS), draw(PICTURE, (whole,), LABELS))


def test_each_source_and_each_node_of_several_has_a_stream_of_its_own() -> None:
    assert urls(broadcasts("")) == ["rtsp://10.0.0.7/in/door"]
    assert urls(broadcasts("front", "back", node="edge0")) == [
        "rtsp://10.0.0.7/in/door/edge0/front",
        "rtsp://10.0.0.7/in/door/edge0/back",
    ]
    assert "broadcasts" not in broadcasts("", broadcast=None).status_report()["detail"]


def test_without_a_media_server_the_worker_says_so_and_goes_on() -> None:
    joint = broadcasts("")
    made = StreamBroadcasts(joint, "")
    made.start()
    joint.infer(PICTURE)
    (state,) = source_broadcasts(joint.status_report()["detail"])
    assert (state.url, state.is_sending, state.problem) == ("", False, NO_SERVER)
    made.close()


def test_what_a_worker_says_of_its_broadcasts_may_be_anything() -> None:
    nothing = SourceBroadcast("", "", False, 0, 0, 0.0, "")
    odd = {
        "source": 7,
        "url": None,
        "is_sending": 1,
        "frames": -1,
        "connections": "x",
        "core_share": "y",
        "problem": [],
    }
    assert list(source_broadcasts({"broadcasts": [{}, odd, "no", None]})) == [nothing, nothing]
    assert list(source_broadcasts({"broadcasts": {}})) == []
