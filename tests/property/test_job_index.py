"""Whatever happens to jobs, the index finds those that the filter accepts, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.job_index import JobIndex, Sort
from app.conversion.model import JobError, Stage
from app.conversion.model.digest import digest
from app.conversion.model.job_filter import parse
from app.conversion.options import Chip, Options, ToolchainName
from app.kit.clock import from_text, to_text
from tests.harness.conversion_jobs import jobs_of_a_year
from tests.harness.valkey import Valkey

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
NOW = BEGIN + timedelta(days=1)
FILTERS = (
    "",
    "status:running",
    "status:failed,cancelled",
    "status:ended verdict:below",
    "snr:<20",
    "snr:10..30 tag:nightly",
    "size:>1K",
    "took:<2m status:completed",
    "created:>20h",
    "snr:>=0",
    "n",
    "yolo",
    "name:olo tag:night,faces",
    "n_face",
    "target:kl720",
    "0000000",
    "id:00000001",
    "owner:ann snr:>=0",
    "owner:bob",
)
OF_MANY = (
    "status:completed",
    "status:failed",
    "snr:<20",
    "snr:10..40",
    "created:<7d",
    "run",
    "yolo nightly",
    "run 1190",
    "size:>300K snr:>20",
    "size:>300K latency:<10ms",
    "status:completed snr:>20 size:<5M",
    "status:completed verdict:passed target:host",
    "nightly status:completed took:>10s",
    "snr:<12 size:>8M",
    "snr:<20 size:>300K",
    "status:failed snr:<20 tag:nightly model:yolo",
)
NAMES = ("yolo_v8", "Yunet face", "臉部偵測", "", "yolox-n face", "run 12")
STEPS = st.sampled_from(["submit", "claim", "succeed", "succeed", "fail", "cancel", "delete", "vanish", "rename"])
HISTORY = st.lists(st.tuples(STEPS, st.integers(0, 40), st.sampled_from(NAMES)), min_size=4, max_size=25)


class History:
    """Does to jobs what happens to them, each thing where it may happen."""

    def __init__(self, container: Container) -> None:
        self.store = container.store
        self.ids: list[str] = []

    def take(self, step: str, number: int, name: str) -> None:
        if step == "submit" or not self.ids:
            return self._submit(number, name)
        job_id = self.ids[number % len(self.ids)]
        record = self.store.get(job_id)
        if record is None:
            return None
        if step in ("delete", "vanish"):
            self.ids.remove(job_id)
            self.store.delete(job_id) if step == "delete" else self._vanish(job_id)
        elif step == "rename":
            fields = {"name": name, "tags": '["Renamed"]'}
            self.store.records.change_call(job_id, {"status": [record.status.value]}, fields, ttl_s=None)()
        elif not record.is_terminal:
            self._advance(step, record, number)
        return None

    def _submit(self, number: int, name: str) -> None:
        at = len(self.ids)
        job_id = str(UUID(int=(number << 96) + at, version=4))
        options = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720) if number % 5 == 0 else Options()
        record = model.submitted(
            job_id,
            now=to_text(BEGIN + timedelta(minutes=17 * number)),
            owner="bob" if number % 7 == 0 else "ann",
            name=name,
            tags=("nightly",) if number % 2 else ("Faces", "night shift"),
            options=options,
            inputs={},
            intake={"model_name": "face_n.onnx"} if number % 3 else {},
        )
        if self.store.create(record, score=float(at)):
            self.ids.append(job_id)

    def _vanish(self, job_id: str) -> None:
        """The record has expired, and a reader of the list noticed."""
        self.store.client.delete(self.store.records.key(job_id))
        self.store.records.forget([job_id])

    def _advance(self, step: str, record: model.JobRecord, number: int) -> None:
        now = to_text(BEGIN + timedelta(minutes=30 * number))
        if step == "claim":
            self.store.claim(record.job_id, model.claimed(record.stage, worker="w"))
        elif step == "succeed":
            self.store.claim(record.job_id, model.claimed(record.stage, worker="w"))
            summary = {"snr_db": number + 0.5, "passed": number > 20, "size_bytes": number * 100}
            told = summary if record.stage is Stage.BIE else {}
            change = model.succeeded(
                record.stage, now=now, times={}, output={}, artifacts={}, summary=told, versions={}
            )
            self.store.apply(record.job_id, change)
        elif step == "fail":
            error = JobError(record.stage.step, "broken")
            self.store.apply(record.job_id, model.failed(record.stage, now=now, error=error))
        else:
            self.store.apply(record.job_id, model.cancelled(record.stage, now=now))


def found(index: JobIndex, text: str, owner: str, sort: Sort, *, is_descending: bool) -> list[str]:
    """On pages of three."""
    query, ids = parse(text, now=NOW), list[str]()
    while True:
        page = index.search(query, owner, sort=sort, is_descending=is_descending, offset=len(ids), limit=3)
        ids += page.job_ids
        if not page.job_ids:
            assert len(ids) == len(set(ids)) == page.total
            return ids


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(few=st.sampled_from([1, 1000]), history=HISTORY, sort=st.sampled_from(list(Sort)), is_descending=st.booleans())
def test_after_every_change_the_index_finds_what_the_filter_accepts(
    container: Container,
    valkey: Valkey,
    few: int,
    history: list[tuple[str, int, str]],
    sort: Sort,
    is_descending: bool,
) -> None:
    valkey.client.flushall()
    jobs, index = History(container), JobIndex(container.store, few=few)
    for at, (step, number, name) in enumerate(history):
        jobs.take(step, number, name)
        text = FILTERS[at % len(FILTERS)]
        digests = [digest(record) for record in container.store.several(jobs.ids)]
        for owner in ("ann", "bob"):
            own = [job for job in digests if owner in job.labels["owner"]]
            accepted = {job.job_id: job for job in own if parse(text, now=NOW).accepts(job)}
            ids = found(index, text, owner, sort, is_descending=is_descending)
            assert set(ids) == set(accepted), text
            _assert_in_order([accepted[job_id].numbers.get(sort.value) for job_id in ids], sort, is_descending)
    for job_id in jobs.ids:
        container.store.delete(job_id)
    index.counts("ann", [])
    left = {key.decode() for key in valkey.client.keys("jobs:index:*")} - {"jobs:index:form", "jobs:index:expires"}
    assert left == set()


@pytest.fixture
def many(container: Container) -> Iterator[Container]:
    """More jobs than are gone through in one step."""
    for job in jobs_of_a_year(1200, "ann", until=NOW):
        container.store.create(job, score=from_text(job.created_at).timestamp())
    yield container


@pytest.mark.parametrize("few", [1, 5000])
def test_among_many_each_page_of_each_order_is_what_the_filter_accepts(many: Container, few: int) -> None:
    jobs = [digest(job) for job in jobs_of_a_year(1200, "ann", until=NOW)]
    index = JobIndex(many.store, few=few)
    for text in OF_MANY:
        query = parse(text, now=NOW)
        accepted = {job.job_id: job for job in jobs if query.accepts(job)}
        for sort, is_descending in ((Sort.CREATED, True), (Sort.SNR, False), (Sort.SNR, True), (Sort.SIZE, False)):
            pages = [
                index.search(query, "ann", sort=sort, is_descending=is_descending, offset=offset, limit=limit)
                for offset, limit in ((0, 50), (50, 900), (950, 400))
            ]
            ids = [job_id for page in pages for job_id in page.job_ids]
            assert {page.total for page in pages} == {len(accepted)}, text
            assert len(ids) == len(set(ids)) and set(ids) == set(accepted), text
            _assert_in_order([accepted[job_id].numbers.get(sort.value) for job_id in ids], sort, is_descending)


def _assert_in_order(numbers: list[float | None], sort: Sort, is_descending: bool) -> None:
    if sort.value not in ("snr", "size", "latency", "took", "created"):
        return
    known = [number for number in numbers if number is not None]
    assert known == sorted(known, reverse=is_descending)
    assert numbers[: len(known)] == known


@pytest.mark.parametrize(
    "spoil", [lambda v: v.client.delete("jobs:index:form"), lambda v: v.client.set("jobs:index:form", "0")]
)
def test_an_index_of_another_form_is_made_anew(
    container: Container, valkey: Valkey, spoil: Callable[[Valkey], object]
) -> None:
    jobs, index = History(container), JobIndex(container.store)
    jobs.take("submit", 1, "yolo")
    assert index.counts("ann", ["status:running"]) == {"status:running": 1}
    valkey.client.delete("jobs:index:ann:t:status:running")
    spoil(valkey)
    assert index.counts("ann", ["status:running"]) == {"status:running": 1}


def test_an_expired_record_leaves_the_index_by_itself(container: Container, valkey: Valkey) -> None:
    jobs, index = History(container), JobIndex(container.store)
    jobs.take("submit", 1, "yolo")
    jobs.take("fail", 0, "")
    assert index.counts("ann", ["status:failed"]) == {"status:failed": 1}
    valkey.client.zadd("jobs:index:expires", {jobs.ids[0]: 1})
    valkey.client.delete(f"job:{jobs.ids[0]}")
    assert index.counts("ann", ["status:failed"]) == {"status:failed": 0}
