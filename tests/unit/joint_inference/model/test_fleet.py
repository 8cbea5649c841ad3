"""A service of many edge nodes: what each is to run, and what follows for the whole."""

from __future__ import annotations

from typing import Any

from app.inference.model_card import Format, ModelCard
from app.joint_inference.model.fleet import fleet_condition, place_on, sum_infos
from app.joint_inference.model.resource import Service
from app.joint_inference.model.rollout import (
    Comparison,
    NodeHealth,
    Rollout,
    RolloutPolicy,
    RolloutState,
    change_text,
    problem_of,
)
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.kit.web.languages import CHINESE
from app.kit.web.written_texts import filters
from app.nodes.model import Node, Side

WORKER = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnx", "frameworkVersion": "1"}
SOURCE = {"key": "source", "value": "rtsp://$(NODE_NAME)/$(NODE_LABEL:floor)$(NODE_LABEL:none)/$(OTHER)"}
SPEC: dict[str, Any] = {
    "edgeWorker": {
        "name": "little",
        "model": {"name": "small"},
        "nodeSelector": {"site": "berlin"},
        "hardExampleAlgorithm": {"name": "IBT"},
        "workerSpec": {**WORKER, "parameters": [SOURCE]},
    },
    "cloudWorker": {"name": "big", "model": {"name": "large"}, "nodeName": "cloud0", "workerSpec": WORKER},
}
ONE, TWO = (ModelCard(f"faces@{n}", Format.ONNX, str(n) * 64, 1) for n in (1, 2))
SERVICE = Service("u", "alice", "default", "gate", 1, 1, "2026-11-27T12:00:00.000Z", SPEC, {})
SERVING = Condition(ConditionType.RUNNING, Reason.SERVING, "asks")
OFFLINE = Condition(ConditionType.PENDING, Reason.NODE_OFFLINE, "The node is not connected.")
BLIND = Condition(ConditionType.FAILED, Reason.SOURCE_UNAVAILABLE, "cam cannot be opened\nIt is tried again.")


def test_each_node_has_the_service_with_its_own_name_and_labels() -> None:
    node = Node("cam1", Side.EDGE, "2026-11-27T12:00:00.000Z", labels={"site": "berlin", "floor": "2"})
    placed = place_on(SERVICE, node, {"inferenceNumber": 3})
    edge = placed.specification.edge
    assert (edge.node, dict(edge.selector), placed.reported) == ("cam1", {}, {"inferenceNumber": 3})
    assert edge.parameters == {"source": "rtsp://cam1/2/$(OTHER)"}
    assert SERVICE.specification.edge.parameters == {"source": SOURCE["value"]}, "the document stays"


def test_it_runs_when_all_do_and_is_degraded_while_one_does_not() -> None:
    assert fleet_condition({"a": SERVING, "b": SERVING}) == Condition(
        ConditionType.RUNNING, Reason.SERVING, "2 of 2 edge nodes run."
    )
    degraded = fleet_condition({"a": SERVING, "b": OFFLINE, "c": BLIND, "d": OFFLINE})
    assert (degraded.type, degraded.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert degraded.message.split("\n") == [
        "1 of 4 edge nodes run.",
        "NodeOffline (2): b, d. The node is not connected.",
        "SourceUnavailable (1): c. cam cannot be opened",
    ]


def test_the_problems_of_nodes_are_told_each_with_its_nodes() -> None:
    sources = Condition(ConditionType.RUNNING, Reason.DEGRADED, "both", {"source": "no frames", "cloud": "no answer"})
    lonely = Condition(ConditionType.RUNNING, Reason.DEGRADED, "no answer", {"cloud": "no answer"})
    assert fleet_condition({"a": SERVING, "b": OFFLINE, "c": sources, "d": lonely}).problems == {
        "nodes": "nodes (1): b. The node is not connected.",
        "source": "source (1): c. no frames",
        "cloud": "cloud (2): c, d. no answer",
    }
    assert fleet_condition({"a": OFFLINE}).problems == {}


def test_what_else_is_wrong_with_a_node_is_told_beside_the_gravest() -> None:
    stalled = Condition(ConditionType.PENDING, Reason.ROLLOUT_STALLED, "stalled\nno frames", {"source": "no frames"})
    both = Condition(
        ConditionType.RUNNING, Reason.DEGRADED, "no answer\nfull", {"cloud": "no answer", "reports": "full"}
    )
    lines = ["RolloutStalled (1): a. stalled", "source (1): a. no frames"]
    alone = fleet_condition({"a": stalled})
    assert (alone.type, alone.reason, dict(alone.problems)) == (stalled.type, stalled.reason, {"source": lines[1]})
    assert alone.message.split("\n") == ["0 of 1 edge nodes run.", *lines]
    degraded = fleet_condition({"a": stalled, "b": both})
    assert degraded.message.split("\n")[1:] == [*lines, "Degraded (1): b. no answer", "reports (1): b. full"]
    assert list(degraded.problems) == ["nodes", "source", "cloud", "reports"]


def test_while_none_runs_it_is_what_most_are() -> None:
    condition = fleet_condition({"a": OFFLINE, "b": BLIND, "c": OFFLINE})
    assert (condition.type, condition.reason) == (ConditionType.PENDING, Reason.NODE_OFFLINE)
    no_model = Condition(ConditionType.FAILED, Reason.MODEL_NOT_FOUND, "There is no model.")
    assert fleet_condition({"a": no_model, "b": no_model}) == no_model
    ended = Condition(ConditionType.RUNNING, Reason.SOURCE_ENDED, "at its end")
    assert fleet_condition({"a": ended, "b": ended}).reason == Reason.SOURCE_ENDED
    assert fleet_condition({"a": ended, "b": SERVING}).reason == Reason.DEGRADED


def test_counts_are_added_up_and_shares_are_of_the_whole() -> None:
    one = {
        "inferenceNumber": 90,
        "hardExampleNumber": 9,
        "uploadNumber": 9,
        "fps": 4.0,
        "edgeMsP50": 2,
        "edgeMsP95": 3.0,
    }
    one |= {"breaker": "closed", "startTime": "2026-11-27T12:00:00Z", "currentTime": "2026-11-27T12:10:00Z"}
    two = {"inferenceNumber": 10, "hardExampleNumber": 11, "uploadNumber": 1, "edgeMsP50": 4, "edgeMsP95": 9.0}
    two |= {"breaker": "open", "lastError": "refused", "startTime": "2026-11-27T11:00:00Z", "phase": "running"}
    total = sum_infos([one, two, {}])
    counted = ("inferenceNumber", "hardExampleNumber", "uploadCloudRatio", "cloudAnswerRatio", "fps", "nodeNumber")
    assert [total[key] for key in counted] == [100, 20, 0.2, 0.1, 4.0, 2]
    assert (total["edgeMsP50"], total["edgeMsP95"], total["cloudMsP50"]) == (3.0, 9.0, None)
    assert (total["breaker"], total["lastError"], total["phase"]) == ("open", "refused", "running")
    assert (total["startTime"], total["currentTime"]) == ("2026-11-27T11:00:00Z", "2026-11-27T12:10:00Z")
    assert sum_infos([{}, {}]) == {}


def test_what_is_told_of_a_fleet_and_its_roll_out_is_told_in_chinese_too() -> None:
    written = filters(CHINESE)["written"]
    message = fleet_condition({"a": SERVING, "b": OFFLINE, "c": BLIND}).message
    rollout = Rollout(ONE, TWO, RolloutState.PROGRESSING, nodes=("a",))
    seen = [Comparison(errors=1), Comparison(99, 0.5), Comparison(99, 1.0, 30.0, 10.0)]
    told = [problem_of(NodeHealth("a", True, TWO.sha256, comparison=one), rollout, RolloutPolicy()) for one in seen]
    changed = change_text(rollout)
    told += [f"{changed}: taken back. {told[0]}", f"{changed}: in wave 1, on 3 nodes.", *message.split("\n")[:1]]
    assert all(told) and not [text for text in told if "<span" in written(text)]
