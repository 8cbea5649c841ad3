"""Policies of others in the policy runner: whatever one does, there is a plan, and the next job is served."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.video.model.plan import Role
from app.video.scheduling import registry
from app.video.scheduling.contract import ENTRY_POINTS
from app.video.scheduling.policy_client import PolicyProcess, ProcessEnded, ProcessLate
from app.video.scheduling.policy_messages import Decision
from app.video.scheduling.policy_runner import PolicyRunner
from tests.harness.video.scheduling_cases import CLOUD, HOST, a_node, a_question, an_answer, nodes

LIMIT_S, SHORT_S = 10.0, 0.3
PLACED = (
    "({'resolution': '360p', 'fps': 10}, {stage: {'model_id': 0, 'node_role': 'cloud', 'node_ip': '10.0.0.2'}"
    " for stage in dag['stages']})"
)
BODIES = {
    "good": f"return {PLACED}",
    "prints": f"print('{{}}', flush=True); import os; os.write(1, b'junk'); return {PLACED}",
    "counts": f"state['n'] = state.get('n', 0) + 1; state['reason'] = f'Call {{state[\"n\"]}}.'; return {PLACED}",
    "shows_process": f"import os; state['reason'] = str(os.getpid()); return {PLACED}",
    "shows_environment": f"import os; state['reason'] = ' '.join(os.environ); return {PLACED}",
    "keeps_much": f"state['much'] = 'x' * 100_000; return {PLACED}",
    "keeps_a_set": f"state['set'] = {{1}}; return {PLACED}",
    "keeps_a_surrogate": f"state['text'] = chr(0xD800); return {PLACED}",
    "keeps_a_nul": f"state['text'] = chr(0); return {PLACED}",
    "says_odd_things": f"state['reason'] = 'a' + chr(0) + chr(10) + chr(0xD800) + 'b' * 1000; return {PLACED}",
    "raises_odd_things": "raise ValueError('a' + chr(0) + chr(10) + 'b')",
    "wants_memory": "kept = []\n    while True: kept.append(bytearray(1 << 26))",
    "raises": "raise KeyError('no such thing')",
    "sleeps": "import time; time.sleep(600)",
    "spins": "while True: pass",
    "exits": "import sys; sys.exit(3)",
    "dies": "import os; os._exit(0)",
    "forks": "import os, time\n    if os.fork() == 0: time.sleep(600)\n    time.sleep(600)",
    "answers_none": "return None",
    "answers_one": "return {}",
    "answers_a_function": "return ({}, len)",
    "answers_nan": "return ({'fps': float('nan')}, {})",
    "wrong_size": f"conf, places = {PLACED}; return ({{'resolution': '144p'}}, places)",
    "deep": "a = []\n    for _ in range(100000): a = [a]\n    return (a, a)",
    "much": "return ({'resolution': 'x' * 2_000_000}, {})",
}
SENT = {"sends_no_json": b"{\n", "sends_no_object": b"[]\n", "sends_no_answer": b'{"took_ms": 1}\n'}
SEND = "import gc, socket; next(one for one in gc.get_objects() if isinstance(one, socket.socket)).sendall"
BODIES |= {name: f"{SEND}({text!r}); return {PLACED}" for name, text in SENT.items()}
"""These answer in the place of the process that runs them."""
MODULE = "".join(
    f'def {name}(*, dag, state, **rest):\n    """Does {name}.\n\n    And more."""\n    {body}\n\n\n'
    for name, body in BODIES.items()
)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A package of policies that misbehave, as pip would install it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "odd_policies.py").write_text(MODULE)
    info = folder / "odd_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd_policies\nVersion: 1.0\n")
    points = [f"{name} = odd_policies:{name}" for name in BODIES]
    points += ["gone = odd_policies:gone", "lost = no_such_module:it", "text = odd_policies:__name__"]
    points += ["fixed = odd_policies:raises"]
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n" + "\n".join(points) + "\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        _forget()
        yield
    _forget()


def _forget() -> None:
    for cached in (registry.others, registry._load, registry._describe):
        cached.cache_clear()


@pytest.fixture(scope="module")
def policy_runner(others: None) -> Iterator[PolicyRunner]:
    """One for all tests, as one is for all jobs: whatever a policy did, the next is served."""
    made = PolicyRunner(limit_s=LIMIT_S)
    yield made
    made.close()


def last_plan(**changes: Any) -> dict[str, Any]:
    conf = {"resolution": "480p", "fps": 24.0, "nskip": 0, "ntracking": 0, "encoder": "JPEG"}
    return {"video_conf": conf, "flow_mapping": an_answer(node="edge0"), **changes}


def asked(policy_runner: PolicyRunner, policy: str, **changes: Any) -> Decision:
    state = {"last_plan": last_plan(), "own": 1, **changes.pop("state", {})}
    return policy_runner.decide(a_question(policy, state=state, **changes))


@pytest.mark.slow
def test_a_plan_of_ones_own_policy_is_taken(policy_runner: PolicyRunner) -> None:
    decision = asked(policy_runner, "good")
    assert decision.outcome == "new" and decision.plan is not None
    assert (decision.plan.seq, decision.plan.policy, decision.plan.video_conf.resolution) == (0, "good", "360p")
    place = decision.plan.flow_mapping["face_alignment"]
    assert (place.node, place.node_ip, place.node_role) == ("cloud0", "10.0.0.2", Role.CLOUD)
    assert decision.state == {"own": 1} and decision.took_ms >= 0 and len(decision.inputs_hash) == 64


def test_a_plan_that_stays_is_limited_to_the_source_once_that_is_known(policy_runner: PolicyRunner) -> None:
    decision = asked(policy_runner, "fixed", generator_output={"fps": 12.0})
    assert decision.outcome == "new" and decision.plan is not None and decision.plan.video_conf.fps == 12.0
    limited = {**last_plan(), "video_conf": decision.plan.video_conf.to_json()}
    again = asked(policy_runner, "fixed", state={"last_plan": limited}, generator_output={"fps": 12.0})
    assert (again.outcome, again.plan) == ("same", None)


def test_the_same_plan_again_is_said_to_be_the_same(policy_runner: PolicyRunner) -> None:
    first = asked(policy_runner, "good")
    assert first.plan is not None
    decision = asked(policy_runner, "good", state={"last_plan": first.plan.to_json()})
    assert (decision.outcome, decision.plan) == ("same", None)


def test_what_a_policy_prints_does_no_harm(policy_runner: PolicyRunner) -> None:
    assert asked(policy_runner, "prints").outcome == "new"
    assert asked(policy_runner, "good").outcome == "new"


def test_a_policys_memory_goes_from_call_to_call(policy_runner: PolicyRunner) -> None:
    first = asked(policy_runner, "counts")
    assert (first.state, first.reason) == ({"own": 1, "n": 1}, "Call 1.")
    assert asked(policy_runner, "counts", state=dict(first.state)).reason == "Call 2."


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("keeps_much", "of 65536 bytes"),
        ("keeps_a_set", "it is no JSON"),
        ("keeps_a_surrogate", "it is no JSON"),
        ("keeps_a_nul", "it has a NUL in it"),
    ],
)
def test_a_memory_that_cannot_be_kept_is_dropped_with_a_note(
    policy_runner: PolicyRunner, policy: str, message: str
) -> None:
    decision = asked(policy_runner, policy)
    assert decision.outcome == "new" and decision.state == {"own": 1}
    assert "Its state was not kept" in decision.reason and message in decision.reason


def test_a_policys_words_are_made_fit_for_a_log(policy_runner: PolicyRunner) -> None:
    decision = asked(policy_runner, "says_odd_things")
    assert decision.outcome == "new" and decision.reason == "a   " + "b" * 496
    assert asked(policy_runner, "raises_odd_things").reason.startswith("raises_odd_things raised: ValueError: a  b.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "outcomes", "message"),
    [
        ("raises", {"raised"}, "raises raised: KeyError: 'no such thing'. The last plan stays."),
        ("sleeps", {"late"}, "sleeps took more than 0.3 s and was ended. The last plan stays."),
        ("spins", {"late"}, "spins took more than 0.3 s"),
        ("forks", {"late"}, "forks took more than 0.3 s"),
        ("exits", {"raised"}, "exits ended the process that it ran in (status 3). The last plan stays."),
        ("dies", {"raised"}, "dies ended the process that it ran in (status 0)."),
        pytest.param("wants_memory", {"raised", "late"}, "wants_memory ", marks=pytest.mark.slow),
        ("answers_none", {"invalid"}, "answers_none: It answered no pair of video_conf and flow_mapping"),
        ("answers_one", {"invalid"}, "answers_one: It answered no pair"),
        ("answers_a_function", {"invalid"}, "It answered no pair"),
        ("answers_nan", {"invalid"}, "It answered no pair"),
        ("wrong_size", {"invalid"}, "wrong_size answered a plan that cannot be: video_conf.resolution: '144p'"),
        ("deep", {"invalid"}, "The last plan stays."),
        ("much", {"invalid"}, "much gave an answer without end. The last plan stays."),
        ("sends_no_json", {"invalid"}, "sends_no_json gave an answer that is no JSON."),
        ("sends_no_object", {"invalid"}, "sends_no_object gave an answer that is no object."),
        ("sends_no_answer", {"invalid"}, "sends_no_answer gave an answer of no known form."),
        ("nobody", {"unknown"}, "There is no scheduling policy 'nobody'. The last plan stays."),
        ("gone", {"unknown"}, "The scheduling policy gone cannot be loaded"),
        ("lost", {"unknown"}, "The scheduling policy lost cannot be loaded"),
        ("text", {"unknown"}, "text is not a function"),
    ],
)
def test_after_a_failure_the_last_plan_stays_and_the_next_is_served(
    policy_runner: PolicyRunner, policy: str, outcomes: set[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        if outcomes == {"late"}:
            patched.setattr(policy_runner, "limit_s", SHORT_S)
        decision = asked(policy_runner, policy)
    assert decision.plan is None and decision.outcome in outcomes
    assert message in decision.reason and decision.reason.endswith("The last plan stays.")
    assert decision.state == {"own": 1}
    assert asked(policy_runner, "good").outcome == "new"


@pytest.mark.parametrize(
    "last",
    [None, last_plan(flow_mapping=an_answer("edge", "10.9.9.9", node="edge9"))],
    ids=["none", "its node is gone"],
)
def test_without_a_plan_to_stay_with_the_simplest_is_taken(policy_runner: PolicyRunner, last: object) -> None:
    decision = asked(policy_runner, "raises", state={"last_plan": last})
    assert decision.outcome == "raised" and decision.plan is not None
    assert {place.node for place in decision.plan.flow_mapping.values()} == {"edge0"}
    assert decision.plan.policy == "edge_only"
    assert "There is no plan to stay with: the simplest one is taken." in decision.reason


def test_where_no_plan_is_possible_that_is_said(policy_runner: PolicyRunner) -> None:
    idle = nodes(a_node("edge0", "host", "10.0.0.1", services=["face_detection"]), CLOUD | {"online": False})
    for policy in ("raises", "edge_only", "cloud_only"):
        decision = asked(policy_runner, policy, state={"last_plan": None}, resource_info=idle)
        assert (decision.plan, decision.outcome) == (None, "raised")
        assert "There is no other plan: No node that is online serves face_alignment." in decision.reason


@pytest.mark.slow
def test_one_child_serves_all_and_another_takes_its_place(policy_runner: PolicyRunner) -> None:
    first = asked(policy_runner, "shows_process").reason
    assert first != str(os.getpid())
    assert asked(policy_runner, "raises").outcome == "raised"
    assert asked(policy_runner, "shows_process").reason == first
    assert asked(policy_runner, "dies").outcome == "raised"
    assert asked(policy_runner, "shows_process").reason not in (first, str(os.getpid()))
    assert not Path(f"/proc/{first}").exists()


def test_a_policy_sees_no_secrets_of_the_environment(
    policy_runner: PolicyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy_runner.close()
    monkeypatch.setenv("MODELMILL_SIGNING_KEY", "secret")
    assert "MODELMILL" not in asked(policy_runner, "shows_environment").reason


@pytest.mark.parametrize(
    ("program", "message"), [("/bin/false", "(status 1)"), ("/no/such/python", "(No such file or directory)")]
)
def test_where_no_process_can_be_started_the_last_plan_stays(
    policy_runner: PolicyRunner, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    policy_runner.close()
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", program)
        decision = asked(policy_runner, "good")
    assert (decision.plan, decision.outcome) == (None, "raised")
    assert f"The process that runs policies did not start {message}. The last plan stays." in decision.reason
    assert asked(policy_runner, "good").outcome == "new"


@pytest.fixture
def policy_process() -> Iterator[PolicyProcess]:
    process = PolicyProcess()
    yield process
    process.end()


def test_a_process_that_has_ended_before_it_is_asked_is_said_to_have(policy_process: PolicyProcess) -> None:
    os.kill(policy_process._process.pid, signal.SIGKILL)
    policy_process._process.wait()
    with pytest.raises(ProcessEnded, match="signal 9"):
        policy_process.ask({"policy": "good", "call": {}}, LIMIT_S)


def test_a_process_that_ends_with_a_question_unread_is_said_to_have(policy_process: PolicyProcess) -> None:
    os.kill(policy_process._process.pid, signal.SIGSTOP)
    policy_process._channel.sendall(b"{}\n")
    os.kill(policy_process._process.pid, signal.SIGKILL)
    policy_process._process.wait()
    with pytest.raises(ProcessEnded, match="signal 9"):
        policy_process.read(LIMIT_S)


def test_an_answer_whose_time_is_over_is_late(policy_process: PolicyProcess) -> None:
    with pytest.raises(ProcessLate, match="more than 0 s"):
        policy_process.read(0)


@pytest.mark.slow
def test_threads_share_a_policy_runner(policy_runner: PolicyRunner) -> None:
    outcomes: list[str] = []
    work = ["good", "raises", "prints", "dies"] * 3
    threads = [
        threading.Thread(target=lambda name: outcomes.append(asked(policy_runner, name).outcome), args=[n])
        for n in work
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted(["new", "raised", "new", "raised"] * 3)


def test_a_closed_policy_runner_leaves_no_process_and_can_be_asked_again(policy_runner: PolicyRunner) -> None:
    pid = asked(policy_runner, "shows_process").reason
    policy_runner.close()
    policy_runner.close()
    assert not Path(f"/proc/{pid}").exists()
    assert asked(policy_runner, "good").outcome == "new"


def test_the_hash_is_of_all_inputs_but_the_time() -> None:
    question = a_question(state={"own": 1})
    assert question.inputs_hash == a_question(state={"own": 1, "now": 77.0}).inputs_hash
    others = [
        a_question(state={"own": 2}),
        a_question("fixed", state={"own": 1}),
        a_question(state={"own": 1}, job_uid="x"),
        a_question(state={"own": 1}, resource_info=nodes(HOST)),
        a_question(state={"own": 1}, generator_output={}),
    ]
    assert question.inputs_hash not in {other.inputs_hash for other in others}


def test_policies_are_named_with_what_they_do(others: None) -> None:
    named = registry.policies()
    assert list(named)[:6] == ["profile", "stepwise", "aimd", "edge_only", "cloud_only", "fixed"]
    assert named["good"] == "Does good."
    assert named["gone"] == "Cannot be loaded: AttributeError."
    assert named["fixed"].startswith("Keeps the plan")
    assert all(named.values())
