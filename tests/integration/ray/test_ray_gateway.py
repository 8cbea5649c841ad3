"""The gateway on a real Ray cluster: what it submits, and what it is told of jobs, nodes and logs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.training.errors import RayRefused
from app.training.gateway import RayStatus, Submission
from app.training.gateway.ray_gateway import RayGateway
from app.training.model.capacity import ACCELERATOR
from app.training.workloads.programs import ANY_OF_TYPE
from tests.harness.ray_cluster import RayCluster
from tests.harness.training.ray_jobs import ON_WORKER, ended, new_id, reaching, submitted, workers
from tests.harness.until import PATIENCE_S, until
from tests.harness.variants import exhaustive

pytestmark = [pytest.mark.ray, pytest.mark.slow]
PPO = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node={gpus} +standin.hold_s={hold_s}"


@pytest.fixture
def gateway(ray_cluster: RayCluster) -> Iterator[RayGateway]:
    """On a cluster on which nothing runs."""
    made = RayGateway(ray_cluster.options())
    until(lambda: free(made), lambda jobs: jobs == [(4, 20), (4, 20)])
    yield made
    made.close()


def free(gateway: RayGateway) -> list[tuple[float, float]]:
    """GPUs and CPUs of each worker."""
    return [(node.free_gpus, node.free_cpus) for node in workers(gateway)]


def test_a_job_runs_once_to_its_end_on_the_worker_that_has_its_resources_with_its_variables(gateway, tmp_path):
    """Although it is submitted a second time, and once more when it has ended."""
    submission = Submission(
        new_id(),
        f'echo "it says $WORD"; echo once >> {tmp_path / "runs"}',
        env={"WORD": "hello"},
        metadata={"task": "t"},
        resources={**ON_WORKER, "nvlink": 1, f"{ACCELERATOR}A100": ANY_OF_TYPE},
    )
    gateway.submit(submission)
    gateway.submit(submission)
    job = ended(gateway, submission.submission_id)

    assert (job.status, job.exit_code, job.error_type) == (RayStatus.SUCCEEDED, 0, "")
    assert [job.driver_node_id] == [node.node_id for node in workers(gateway) if "A100" in node.accelerators]
    assert job.started_ms is not None
    assert job.ended_ms is not None
    assert job.ended_ms >= job.started_ms
    assert b"it says hello\n" in gateway.log_tail(job, 5)

    gateway.submit(submission)

    assert (tmp_path / "runs").read_text() == "once\n"


def test_of_a_job_that_nobody_submitted_nothing_is_known_and_it_can_be_stopped(gateway):
    gateway.stop(new_id())
    assert gateway.job(new_id()) is None


@pytest.mark.parametrize(
    ("entrypoint", "codes"),
    [
        ("kill -9 $$", {-9, 137}),
        *exhaustive(("exit 3", {3}), ("no-such-program", {127})),
    ],
    ids=str,
)
def test_a_program_that_fails_leaves_its_exit_code_and_its_last_words(gateway, entrypoint, codes):
    job = ended(gateway, submitted(gateway, f"echo before; {entrypoint}"))
    assert (job.status, job.error_type) == (RayStatus.FAILED, "JOB_ENTRYPOINT_COMMAND_ERROR")
    assert job.exit_code in codes
    assert "before" in job.message


def test_a_job_that_waits_for_its_resources_is_pending_and_does_not_stop(gateway):
    submission_id = submitted(gateway, "true", gpus=9)
    gateway.stop(submission_id)

    job = gateway.job(submission_id)
    assert job is not None
    assert (job.status, job.driver_node_id) == (RayStatus.PENDING, "")
    assert gateway.log_tail(job, 10) == b""
    assert list(gateway.log(job)) == []


@pytest.mark.parametrize(
    "submission",
    [
        Submission("bad/slash--a01", "true"),
        Submission("../../tmp/evil--a01", "true"),
        Submission("", "true"),
        Submission("typed--a01", "true", env={"NAME": 1}),  # type: ignore[dict-item]
        Submission("typed--a02", "true", metadata={"name": 1}),  # type: ignore[dict-item]
        Submission("typed--a03", ["true"]),  # type: ignore[arg-type]
    ],
    ids=["slash", "dots", "empty", "environment", "metadata", "entry point"],
)
def test_what_ray_will_never_take_is_refused_and_not_there(gateway, submission):
    with pytest.raises(RayRefused) as caught:
        gateway.submit(submission)
    assert "Traceback" not in caught.value.message
    if "/" not in submission.submission_id and submission.submission_id:
        assert gateway.job(submission.submission_id) is None


def test_nodes_tell_what_is_free_also_when_all_is_taken(gateway):
    submission_id = submitted(gateway, "sleep 1000", gpus=4, cpus=20)
    until(lambda: sorted(free(gateway)), lambda nodes: nodes == [(0, 0), (4, 20)])
    assert [(node.total_gpus, node.total_cpus) for node in workers(gateway)] == [(4, 20), (4, 20)]
    [head] = [node for node in gateway.nodes() if not node.may_train]
    assert (head.total_gpus, head.free_gpus, head.total_cpus, head.free_cpus) == (0, 0, 0, 0)

    gateway.stop(submission_id)

    until(lambda: free(gateway), lambda nodes: nodes == [(4, 20), (4, 20)])


def test_a_placement_group_tells_whose_it_is_and_what_it_has_where(gateway):
    submission_id = submitted(gateway, PPO.format(gpus=2, hold_s=1000))
    [group] = until(gateway.placement_groups, lambda groups: any(group.is_placed for group in groups))

    job = gateway.job(submission_id)
    assert job is not None
    assert group.ray_job_id == job.ray_job_id != ""
    [place] = {node_id for node_id, *_ in group.bundles}
    assert place in {node.node_id for node in workers(gateway)}
    assert group.bundles == ((place, 1.0, 3.0),) * 2

    gateway.stop(submission_id)
    until(gateway.placement_groups, lambda groups: not groups)


@pytest.mark.exhaustive  # one that is placed is tried above
def test_a_placement_group_that_waits_is_nowhere(gateway):
    submission_id = submitted(gateway, PPO.format(gpus=9, hold_s=1).replace("main_ppo", "sft_trainer_ray"))
    [group] = until(gateway.placement_groups)

    assert not group.is_placed
    assert group.bundles == (("", 1.0, 3.0),) * 9
    assert reaching(gateway, submission_id, RayStatus.RUNNING).ray_job_id == group.ray_job_id

    gateway.stop(submission_id)
    until(gateway.placement_groups, lambda groups: not groups)


@pytest.mark.exhaustive
def test_too_few_gpus_is_an_error_that_noise_pushes_out_of_the_message_but_not_out_of_the_log(gateway):
    job = ended(gateway, submitted(gateway, PPO.format(gpus=9, hold_s=1) + " +standin.noise=40"))
    message = "Total available GPUs 8.0 is less than total desired GPUs 9"

    assert (job.status, job.exit_code) == (RayStatus.FAILED, 1)
    assert message not in job.message
    assert message.encode() in gateway.log_tail(job, 200)


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last + 1))


def without_rays_word(log: bytes) -> bytes:
    """Ray writes by another way to the same file: its line may come late and in between."""
    return re.sub(rb"Running entrypoint .*\n", b"", log)


def test_a_log_is_read_by_its_end_and_whole(gateway):
    count = 200_000
    job = ended(gateway, submitted(gateway, f"seq {count}"))

    tail = gateway.log_tail(job, 3)
    assert tail.count(b"\n") == 3
    assert without_rays_word(tail) in (numbered(count - 2, count), numbered(count - 1, count))
    chunks = list(gateway.log(job))
    whole = without_rays_word(b"".join(chunks))
    assert whole.endswith(numbered(1, count))
    assert max(map(len, chunks)) <= 1 << 17


@pytest.mark.exhaustive
def test_a_tail_of_one_endless_line_is_cut(gateway):
    job = ended(gateway, submitted(gateway, "head -c 20000000 /dev/zero | tr '\\0' x"))
    tail = gateway.log_tail(job, 10)
    assert len(tail) == 4 << 20
    assert tail.count(b"x") > len(tail) - 1000, "Ray's own line that says what runs may come at any time"


@pytest.mark.exhaustive
def test_nothing_is_printed_no_signal_is_taken_and_no_other_address_is_used(ray_cluster):
    """In a process of its own: the imports of Ray are part of it."""
    program = f"""
import signal
before = [signal.getsignal(number) for number in signal.valid_signals()]
from app.training.gateway.ray_gateway import RayGateway, RayOptions
gateway = RayGateway(RayOptions({ray_cluster.address!r}, {ray_cluster.gcs_address!r}, timeout_s=60))
assert gateway.job("of-nobody--a01") is None
assert len(gateway.nodes()) == 3
assert gateway.placement_groups() is not None
assert before == [signal.getsignal(number) for number in signal.valid_signals()]
gateway.close()
"""
    env = {"RAY_ADDRESS": "127.0.0.1:1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_node_tells_how_much_it_is_used(gateway):
    uses = until(gateway.use, lambda uses: set(uses) >= {node.node_id for node in gateway.nodes()})
    for use in uses.values():
        assert 0 <= use.cpu_percent <= 100 and 0 < use.memory < use.total_memory
        assert use.gpu_percent is None and use.total_gpu_memory == 0  # its GPUs are pretended
