"""Contents of orders, there and back through JSON; and which states a job can go to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.inference.model_card import Format, ModelCard
from app.kit.errors import BadInput
from app.video.model.constraint import Constraint, read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import TRANSITIONS, JobContent, JobState, Mode, RestartPolicy, ServicesContent, StageHost
from app.video.model.kinds import Stage
from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from tests.harness.video.dags import a_dag

STAGE = Stage("face_detection", "face_detection", ((ModelCard("m", Format.ONNX, "a" * 64, 5),),), {"score": "0.5"})
HOST = StageHost("cloud0", "cloud", "10.0.0.2", "http://10.0.0.2:5500", "secret")


def a_content(**changes: Any) -> JobContent:
    given: dict[str, Any] = {
        "uid": "GLOBAL_ID_1.SUB_ID_1",
        "video_id": "1",
        "dag": read_dag(a_dag()),
        "stages": (STAGE,),
        "mode": Mode.RUN,
        "realtime": False,
        "restart_policy": RestartPolicy.EOS,
        "constraint": Constraint(0.1, 0.3, 0.9),
        "plan": Plan(2, VideoConf(), {"face_detection": StagePlace(0, Role.CLOUD, "10.0.0.2", "cloud0")}, "fixed"),
        "hosts": (HOST,),
        "secret": "s",
    }
    return JobContent(**{**given, **changes})


@pytest.mark.parametrize(
    "content",
    [
        a_content(),
        a_content(plan=None, hosts=(), stages=(), constraint=read_constraint({"delay": [-1, 50], "acc_level": 5})),
    ],
)
def test_a_jobs_order_comes_back_as_it_went(content: JobContent) -> None:
    assert JobContent.from_json(json.loads(json.dumps(content.to_json()))) == content


@pytest.mark.parametrize("key", list(a_content().to_json()))
def test_a_jobs_order_without_a_part_is_none(key: str) -> None:
    written = a_content().to_json()
    del written[key]
    with pytest.raises(KeyError):
        JobContent.from_json(written)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dag", {}),
        ("constraint", {"delay": 0}),
        ("mode", "walk"),
        ("restart_policy", "x"),
        ("plan", {"seq": "x"}),
        ("hosts", [{"node": "n"}]),
        ("stages", [1]),
        ("stages", 5),
    ],
)
def test_a_jobs_order_with_a_bad_part_is_none(key: str, value: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, BadInput)):
        JobContent.from_json({**a_content().to_json(), key: value})


def test_an_order_to_serve_comes_back_as_it_went() -> None:
    content = ServicesContent({"face_detection": STAGE, "GLOBAL_ID_1.SUB_ID_1/own": STAGE}, "s", (HOST,), 2)
    assert ServicesContent.from_json(json.loads(json.dumps(content.to_json()))) == content


def test_a_job_that_is_done_goes_nowhere() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert not TRANSITIONS[JobState.DONE]
    assert JobState.UNSCHED in TRANSITIONS[JobState.EXEC] and JobState.EXEC in TRANSITIONS[JobState.UNSCHED]
