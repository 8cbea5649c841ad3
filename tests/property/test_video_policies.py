"""Whatever the DAG, the nodes and the figures: a policy of the product answers a plan that can be carried out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from app.video.model.plan import RESOLUTIONS
from app.video.scheduling.contract import DagInfo, NodeInfo, ResourceInfo
from app.video.scheduling.plan_validation import validate_plan
from app.video.scheduling.policy_messages import RESET_KEYS
from app.video.scheduling.policy_process import MAX_STATE_BYTES
from app.video.scheduling.registry import PRODUCT, policy_of
from tests.harness.timed_search import seeds
from tests.harness.video.scheduling_cases import GENERATOR, a_node

SECONDS = 0.4
"""Of the processor, for each policy."""
DELAYS = st.floats(0, 20)
MBPS = st.none() | st.floats(0, 10_000)
SHARES = st.floats(0, 1)


@st.composite
def dags(draw: st.DrawFn) -> DagInfo:
    names = [f"s{at}" for at in range(draw(st.integers(1, 5)))]
    stages: Any = {
        name: {
            "kind": "k",
            "n_models": draw(st.integers(1, 3)),
            "pictures": draw(st.booleans()),
            "before": draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else [],
        }
        for at, name in enumerate(names)
    }
    return {"generator": GENERATOR, "flow": [GENERATOR, *names], "input": {}, "stages": stages}


@st.composite
def resources(draw: st.DrawFn, dag: DagInfo, roles: list[str], *, is_pseudo: bool) -> ResourceInfo:
    """Nodes with any services, some offline; each stage is served by one at least that is online."""
    stages = dag["flow"][1:]
    infos: list[NodeInfo] = [
        a_node(
            f"node{at}",
            role,
            "127.0.0.1" if is_pseudo else f"10.0.0.{at}",
            draw(st.lists(st.sampled_from(stages), unique=True)),
            online=draw(st.booleans()),
            cpu_ratio=draw(SHARES),
            up_mbps=draw(MBPS),
            down_mbps=draw(MBPS),
            cores=draw(st.integers(1, 64)),
        )
        for at, role in enumerate(roles)
    ]
    for stage in stages:
        server = draw(st.sampled_from(infos))
        server["online"] = True
        server["service"].setdefault(stage, {"n_process": 1, "cpu_ratio": 0.1, "mem_ratio": 0.1})
    return {node["node"] if is_pseudo else node["ip"]: node for node in infos}


@st.composite
def profiles(draw: st.DrawFn, dag: DagInfo) -> list[dict[str, Any]]:
    row = st.fixed_dictionaries(
        {
            "node": st.sampled_from([f"node{at}" for at in range(5)]),
            "stage": st.sampled_from(dag["flow"][1:]),
            "model_id": st.integers(0, 2),
            "resolution": st.sampled_from(list(RESOLUTIONS)),
            "delay_s": DELAYS,
            "bytes": st.floats(0, 1e7),
            "quality": SHARES,
        }
    )
    return draw(st.lists(row, max_size=12))


@st.composite
def results(draw: st.DrawFn, dag: DagInfo) -> dict[str, Any] | None:
    stages = dag["flow"][1:]
    by_stage = st.dictionaries(st.sampled_from(stages), DELAYS)
    optional = {
        "iou": st.dictionaries(st.sampled_from(stages), SHARES),
        "server": by_stage,
        "queue": by_stage,
        "e2e_p50": DELAYS,
        "e2e_p95": DELAYS,
        "fps": st.floats(0, 120),
        "frames": st.integers(0, 100),
        "dropped": st.integers(0, 100),
        "violations": st.integers(0, 100),
        "bytes_up": st.floats(0, 1e7),
        "up_mbps": st.dictionaries(st.sampled_from(["node0", "node1", "node2"]), st.floats(0, 1000)),
        "fallbacks": st.integers(0, 10),
    }
    return draw(st.none() | st.fixed_dictionaries({"delay": by_stage}, optional=optional))


SOURCES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "fps": st.floats(0, 240),
        "height": st.integers(0, 4000),
        "width": st.integers(0, 4000),
        "bytes": st.floats(0, 1e7),
        "objects": st.integers(0, 50),
        "seq": st.integers(0),
    },
)
LIMITS = st.tuples(st.just(-1.0) | st.floats(0, 0.2), st.floats(0.21, 10))


@pytest.mark.parametrize("name", sorted(PRODUCT))
def test_every_answer_can_be_carried_out(name: str) -> None:
    tried = settings(
        max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None, phases=(Phase.generate,)
    )(given(st.data())(lambda data: plan_by_plan(name, data)))
    for number in seeds(SECONDS):
        seed(number)(tried)()


def plan_by_plan(name: str, data: st.DataObject) -> None:
    dag = data.draw(dags())
    is_pseudo, limits, source = data.draw(st.booleans()), data.draw(LIMITS), data.draw(SOURCES)
    profile: Any = data.draw(profiles(dag))
    roles = ["host", *data.draw(st.lists(st.sampled_from(["edge", "cloud"]), max_size=4))]
    state: dict[str, Any] = {}
    last = None
    for now in range(data.draw(st.integers(1, 5))):
        nodes = data.draw(resources(dag, roles, is_pseudo=is_pseudo))
        state = {**state, "last_plan": last, "profile": profile, "now": float(now * 5)}
        result: Any = data.draw(results(dag)) if last else None
        answer = policy_of(name if now else data.draw(st.sampled_from([name, "cloud_only"])))(
            job_uid="GLOBAL_ID_1.SUB_ID_1",
            dag=dag,
            resource_info=nodes,
            last_plan_res=result,
            user_constraint={"delay": limits, "quality": data.draw(SHARES), "given": {}},
            generator_output=source,
            state=state,  # type: ignore[arg-type]
        )
        plan = validate_plan(*json.loads(json.dumps(answer, allow_nan=False)), dag=dag, resource_info=nodes)
        assert isinstance(state.pop("reason"), str)
        state = json.loads(
            json.dumps({key: value for key, value in state.items() if key not in RESET_KEYS}, allow_nan=False)
        )
        assert len(json.dumps(state)) <= MAX_STATE_BYTES
        written = plan.to_json()
        last = {"video_conf": written["video_conf"], "flow_mapping": written["flow_mapping"]}
