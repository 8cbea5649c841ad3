"""The id of an object in the pictures of a service is that of its rows, events and sinks, whatever order answers come
in, and also after a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from app.edge.joint.answer_order import MOST_HELD, NAME, AnswerOrders
from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import OpenSample, Place, SampleOutcome
from app.edge.joint.rows import RowQueue
from app.edge.joint.stream_broadcasts import StreamBroadcasts
from app.edge.joint.work import START_S, Work
from app.edge.object_follower import RESERVED_IDS
from app.inference.broadcast import Broadcast
from app.inference.prediction import Box, Picture, Prediction
from app.joint_inference.hard_examples import Verdict, make
from app.joint_inference.model.sources import NamedSource
from app.joint_inference.model.tally import RowChoice, Source
from app.joint_inference.service.row_report import read_rows
from app.joint_inference.worker_options import EdgeOptions
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.model.producer import Producer
from app.results.model.rule import Rule, RuleSet
from app.results.model.rule_evaluation import EvaluationState, evaluate
from app.results.model.sink import event_delivery, row_delivery

PICTURE: Picture = np.full((180, 320, 3), 90, np.uint8)
PRODUCER = Producer("joint", "u", "alice", "a/b", "/api/v2/services/a/b", "/", "services", "/", "service:u")


def people(*lefts: float) -> Prediction:
    return Prediction(boxes=tuple(Box(left, 60, left + 40, 120, 0.9, 0) for left in lefts))


class Worker:
    """The part of an edge worker that turns answers into rows, in a process that may begin again. A sample comes ten
    times a second."""

    def __init__(self, folder: Path | None = None, first_id: int = 1) -> None:
        self.now = 1.79e9
        self.orders = AnswerOrders(folder / NAME if folder else None, first_id)
        self.rows = RowQueue(RowChoice.ALL, ("person",), self.orders, clock=lambda: self.now)
        self.turns: list[Place] = []

    def come(self, source: str = "") -> Place:
        self.now += 0.1
        return self.rows.reserve(source=source)

    def answer(self, place: Place, *lefts: float) -> None:
        verdict = Verdict(False, 0.5, "")
        outcome = SampleOutcome("1", Source.EDGE, people(*lefts), verdict, None)
        self.rows.fill(place, outcome, (320, 180), lambda: self.turns.append(place))

    def take(self, *lefts: float, source: str = "") -> list[int | None]:
        """A sample that is answered at once. Returns the ids of its objects."""
        place = self.come(source)
        self.answer(place, *lefts)
        return list(place.ids)

    def sent(self) -> list[Any]:
        report = self.rows.report()
        self.rows.is_taken()
        return read_rows(report.body).rows if report else []


def test_an_answer_waits_for_those_before_it_and_keeps_their_ids() -> None:
    worker = Worker()
    first, second, third = (worker.come() for _ in range(3))
    worker.answer(third, 60, 200)
    worker.answer(second, 40)
    assert worker.turns == [] and worker.sent() == []
    worker.answer(first, 20)
    assert worker.turns == [first, second, third]
    assert [row["ids"] for row in worker.sent()] == [[1], [1], [1, 2]]
    assert worker.orders.late == 0


def test_a_source_does_not_wait_for_another_and_its_objects_are_numbered_apart() -> None:
    worker = Worker()
    hard = worker.come("door")
    assert [worker.take(20, 100, source="yard"), worker.take(100, source="yard")] == [[1, 2], [2]]
    worker.answer(hard, 20)
    assert hard.ids == [1]


def test_after_a_bound_the_others_go_on_and_a_late_answer_still_gets_its_ids() -> None:
    worker = Worker()
    worker.take(20)
    hard = worker.come()
    waiting = [worker.come() for _ in range(MOST_HELD)]
    for place in waiting:
        worker.answer(place, 20)
    assert (waiting[-1].ids, hard.is_late, worker.orders.late) == ((), False, 0)
    assert worker.take(20, 200) == [1, 2]
    assert (waiting[-1].ids, hard.is_late, worker.orders.late) == ([1], True, 1)
    worker.now += 5
    worker.answer(hard, 21, 100)
    assert hard.ids == [1, 3]
    rows = [row["ids"] for row in worker.sent()]
    assert rows == [[1], [1, 3], *[[1]] * MOST_HELD, [1, 2]], "in the order of the samples"
    worker.now -= 5
    assert worker.take(20, 200) == [1, 2], "a late answer is no other clock"


def test_answers_that_come_in_their_order_are_never_late() -> None:
    worker = Worker()
    waiting = [worker.come() for _ in range(5 * MOST_HELD)]
    for place in waiting:
        worker.answer(place, 20)
    assert worker.orders.late == 0 and worker.turns == waiting


def test_a_worker_that_was_killed_goes_on_with_the_objects_and_gives_no_id_twice(tmp_path: Path) -> None:
    killed = Worker(tmp_path)
    killed.take(20, 100)
    killed.orders.save()
    assert killed.take(20, 100, 200) == [1, 2, 3]
    again = Worker(tmp_path)
    again.now = killed.now
    first, second, third = again.take(25, 105, 260)
    assert (first, second) == (1, 2)
    assert third is not None and third > RESERVED_IDS
    assert again.take(20, source="new") == [1]


def test_where_the_file_is_missing_or_damaged_ids_begin_above_those_of_another_node(tmp_path: Path) -> None:
    assert Worker(tmp_path, first_id=77).take(20) == [77]
    for text in ("{", "[]", '{"sources": {"": {"at": 1, "tracks": [[1]], "next_track": 3}}, "first_id": 1}'):
        (tmp_path / NAME).write_text(text)
        assert Worker(tmp_path, first_id=88).take(20) == [88]


def test_a_worker_that_has_kept_nothing_begins_above_the_ids_of_the_service_so_far() -> None:
    created = datetime(2026, 11, 1, tzinfo=UTC)

    def first_id(metadata: dict[str, str], age: timedelta) -> int:
        work = SimpleNamespace(content=SimpleNamespace(resource={"metadata": metadata}))
        return Work.first_id(cast(Work, work), created + age)

    known = {"creationTimestamp": "2026-11-01T00:00:00Z"}
    assert [first_id(known, timedelta(seconds=s)) for s in (-9, 0, START_S)] == [1, 1, 1]
    assert first_id(known, timedelta(days=1)) > 86_000
    assert first_id({}, timedelta(days=1)) == 1


def test_picture_hard_sample_row_event_and_sinks_have_the_same_id(monkeypatch: Any) -> None:
    drawn: list[Any] = []
    answers: list[Prediction] = [people(20), people(30, 200), people(210)]

    class Small:
        labels = ("person",)

        def predict(self, picture: Picture) -> Prediction:  # the real one's
            return answers[int(picture[0, 0, 0])]

    options = EdgeOptions(sources=(NamedSource("", "/clip.mp4"),), broadcast=Broadcast("door"))
    joint = JointInference(Small(), make("CloudOnly", {}), options, big_model=None, service="s")
    broadcasts = StreamBroadcasts(joint, "rtsp://10.0.0.7/in")
    (broadcaster,) = broadcasts._broadcasters.values()
    monkeypatch.setattr(broadcaster, "show", drawn.append)
    samples = []
    for n in range(3):
        joint.submit(np.full((180, 320, 3), n, np.uint8))
        samples.append(joint.samples.take())
    ids = [[1], [1, 2], [2]]
    assert [scene.ids for scene in drawn] == ids
    assert [sample[0].extra["ids"] for sample in samples if sample] == ids
    report = joint.rows.report()
    assert report is not None
    rows = read_rows(report.body).rows
    records = [FrameRecord(n, moment_of(row, datetime.now(UTC)), row) for n, row in enumerate(rows, 1)]
    rules = RuleSet((), (Rule("there", label="person", at_least=2),))
    _, (event,), stored, _ = evaluate(rules, EvaluationState(), records, size=None, by_pts=False)
    assert [record.row["ids"] for record in stored] == ids
    assert [one["track"] for one in event_delivery(PRODUCER, event).envelope["data"]["objects"]] == [1, 2]
    sent = [row_delivery(PRODUCER, record).envelope["data"]["objects"] for record in stored]
    assert [[one["id"] for one in objects] for objects in sent] == ids


def test_a_late_answer_is_not_broadcast_after_newer_ones(monkeypatch: Any) -> None:
    shown: list[Any] = []
    options = EdgeOptions(sources=(NamedSource("", "/clip.mp4"),), broadcast=Broadcast("door"))
    joint = JointInference(cast(Any, None), make("EdgeOnly", {}), options, big_model=None, service="s")
    broadcasts = StreamBroadcasts(joint, "rtsp://10.0.0.7/in")
    (broadcaster,) = broadcasts._broadcasters.values()
    monkeypatch.setattr(broadcaster, "show", shown.append)
    verdict = Verdict(False, 0.5, "")
    outcome = SampleOutcome("1", Source.EDGE, people(20), verdict, None)
    for is_late in (False, True):
        row = Place(0.0, ids=[7], is_late=is_late)
        pending = OpenSample("1", PICTURE, verdict, None, edge_ms=1, at=0, row=row)
        assert joint.broadcast is not None
        joint.broadcast(pending, outcome)
    (scene,) = shown
    assert scene.ids == [7]
