"""Redis is killed at a point of a job's end: the job is in the archive whole, or not at all, and never live again."""

from __future__ import annotations

import hashlib

import pytest

from app.conversion.archive_index import ArchiveFilter
from app.conversion.model import Artifact, Status
from tests.harness.faults.deployment import OWNER
from tests.harness.faults.invariants import assert_forgotten, assert_recovered
from tests.harness.faults.supervised_deployment import SupervisedDeployment
from tests.harness.until import until

pytestmark = pytest.mark.slow
exhaustive = pytest.mark.exhaustive
ABSENT, WHOLE = False, True


@pytest.mark.parametrize(
    ("point", "outcome"),
    [
        pytest.param("before-report.nef", ABSENT, id="before its worker reports", marks=exhaustive),
        pytest.param("before-advance.nef", ABSENT, id="before the report is taken in", marks=exhaustive),
        pytest.param("before-archive", ABSENT, id="before it is described"),
        pytest.param("after-archive", WHOLE, id="after it was described"),
        pytest.param("before-settle", WHOLE, id="after it was said to have completed", marks=exhaustive),
        pytest.param("after-advance.nef", WHOLE, id="after the report was taken in", marks=exhaustive),
    ],
)
def test_a_job_is_in_the_archive_whole_or_not_at_all(
    supervised: SupervisedDeployment, point: str, outcome: bool
) -> None:
    container = supervised.container
    container.prepare()
    supervised.hold(point)
    job = supervised.submit()
    until(lambda: supervised.reached(point), what=f"the job is at {point}")
    supervised.valkey.kill()
    supervised.valkey.start()
    for path in supervised.holds.iterdir():
        path.unlink()
    assert_recovered(supervised, [], forgotten=[job])
    archived = container.archive.descriptions.read(job.job_id)
    listed = {row.job_id for row in container.archive.page(ArchiveFilter(), OWNER, limit=200)[0]}
    assert (archived is not None, job.job_id in listed) == (outcome, outcome)
    if archived is not None:
        assert archived.record.status is Status.COMPLETED
        made = {name: artifact for name, artifact in archived.record.artifacts.items() if name.startswith("out.")}
        assert set(made) == {"out.onnx", "out.bie", "out.nef"}
        for artifact in made.values():
            assert digest_of(supervised, artifact) == artifact.sha256
    assert_forgotten(supervised, job)


def digest_of(deployment: SupervisedDeployment, artifact: Artifact) -> str:
    return hashlib.sha256(b"".join(deployment.container.objects.read(artifact.key))).hexdigest()
