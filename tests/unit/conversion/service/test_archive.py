"""What is in the archive, and when: whole or not at all, its owner's alone, and gone when it is deleted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.archive_index import ArchiveFilter
from app.conversion.errors import JobNotFound, NotArchived
from app.conversion.model import Artifact, Change, JobRecord, Stage, StageState, Status
from app.conversion.model.receipt import read_statement
from app.conversion.options import Options
from app.conversion.service.descriptions import ArchivedJob
from app.conversion.service.receipts import Receipts
from app.kit.clock import now, to_text
from app.kit.objects import ObjectMissing, StoreUnavailable
from app.kit.signatures import dsse

EVERYTHING = ArchiveFilter()
NOBODY = "00000000-0000-4000-8000-000000000000"


def in_last_stage(container: Container, owner: str = "local", *, snr_db: float = 25.0, name: str = "") -> JobRecord:
    """A job whose last stage has stored what it made, and not yet reported."""
    job_id, moment = str(uuid4()), to_text(now())
    inputs = {}
    for input_name in (object_keys.MODEL, object_keys.IMAGES):
        stored = container.objects.put(object_keys.input_(job_id, input_name), [input_name.encode()])
        inputs[input_name] = Artifact(stored.key, stored.size_bytes, stored.sha256)
    container.objects.put(object_keys.owned(owner, job_id), [])
    record = model.submitted(
        job_id, now=moment, owner=owner, name=name, tags=("Night", "x_y"), options=Options(), inputs=inputs, intake={}
    )
    bie = replace(record.stages["onnx"], state=StageState.DONE, summary={"snr_db": snr_db, "passed": snr_db >= 20})
    nef = replace(record.stages["onnx"], state=StageState.RUNNING)
    stages = {**record.stages, "bie": bie, "nef": nef}
    record = replace(record, status=Status.NEF, stage=Stage.NEF, stages=stages, claim="here/nef/0#nef#1")
    container.store.create(record, score=1.0)
    return record


def report(container: Container, job_id: str) -> None:
    stored = container.objects.put(object_keys.result(job_id, Stage.NEF), [b"nef"])
    artifact = {"key": stored.key, "size_bytes": stored.size_bytes, "sha256": stored.sha256}
    facts = {"artifacts": {"out.nef": artifact}}
    container.conversion.dispatch.advance(job_id=job_id, step="nef", result="ok", reason=None, facts=facts)


def completed(container: Container, owner: str = "local", **about: object) -> str:
    job_id = in_last_stage(container, owner, **about).job_id  # type: ignore[arg-type]
    report(container, job_id)
    return job_id


def listed(container: Container, owner: str = "local", criteria: ArchiveFilter = EVERYTHING) -> set[str]:
    return {row.job_id for row in container.archive.page(criteria, owner, limit=100)[0]}


def test_a_completed_job_is_in_the_archive_as_it_was(container: Container) -> None:
    job_id = completed(container, name="臉")
    assert listed(container) == {job_id}
    assert container.archive.get(job_id, "local").record == container.store.require(job_id)


def test_it_is_found_after_a_reset_and_the_job_stays_gone(container: Container) -> None:
    seen, unseen = completed(container), completed(container)
    assert listed(container) == {seen, unseen}
    later = completed(container)  # its note is lost before anybody reads
    container.redis.flushall()
    assert listed(container) == {seen, unseen, later}
    assert container.store.get(seen) is None
    assert container.conversion.jobs.known(seen, "local").status is Status.COMPLETED


def test_a_job_that_has_not_completed_is_not_in_it(container: Container) -> None:
    job_id = in_last_stage(container).job_id
    container.conversion.dispatch.advance(job_id=job_id, step="nef", result="fail", reason="why", facts=None)
    assert listed(container) == set()
    with pytest.raises(NotArchived):
        container.archive.get(job_id, "local")


def test_a_job_cancelled_while_it_was_described_is_not_in_it(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = in_last_stage(container)
    write = container.conversion.dispatch.completion.descriptions.write

    def cancel_then_write(finished: JobRecord) -> None:
        container.conversion.jobs.cancel(record.job_id, "local")
        write(finished)

    monkeypatch.setattr(container.conversion.dispatch.completion.descriptions, "write", cancel_then_write)
    report(container, record.job_id)
    assert container.store.require(record.job_id).status is Status.FAILED
    assert container.archive.descriptions.read(record.job_id) is None


def test_a_job_that_is_seen_as_completed_is_listed_at_once(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, completion = in_last_stage(container), container.conversion.dispatch.completion
    settle, seen = completion.settle, list[object]()
    assert listed(container) == set(), "from now on the index follows what is noted"

    def look_then_settle(job_id: str) -> None:
        seen.extend((container.store.require(job_id).status, listed(container)))
        settle(job_id)

    monkeypatch.setattr(completion, "settle", look_then_settle)
    report(container, record.job_id)
    assert seen == [Status.COMPLETED, {record.job_id}]


def test_a_job_that_is_listed_before_its_completion_is_refused_is_not_listed_after_it(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, completion = in_last_stage(container), container.conversion.dispatch.completion
    prepare, seen = completion.prepare, list[object]()

    def prepare_then_cancel(job_id: str, change: Change) -> Change:
        prepared = prepare(job_id, change)
        seen.append(listed(container))
        container.conversion.jobs.cancel(job_id, "local")
        return prepared

    monkeypatch.setattr(completion, "prepare", prepare_then_cancel)
    report(container, record.job_id)
    assert container.store.require(record.job_id).status is Status.FAILED
    assert (seen, listed(container)) == ([{record.job_id}], set())


@pytest.mark.parametrize("point", ["before it is described", "after it was described", "after it was said"])
def test_redis_forgets_everything_at_a_point_of_the_end(
    container: Container, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    record = in_last_stage(container)
    completion, store = container.conversion.dispatch.completion, container.conversion.dispatch.store
    if point == "before it is described":
        container.redis.flushall()
    elif point == "after it was described":
        apply = store.apply
        monkeypatch.setattr(store, "apply", lambda *args: container.redis.flushall() and apply(*args))
    else:
        settle = completion.settle
        monkeypatch.setattr(completion, "settle", lambda job_id: container.redis.flushall() and settle(job_id))
    report(container, record.job_id)
    assert container.store.get(record.job_id) is None, "nothing of it has come back"
    is_there = point != "before it is described"
    assert listed(container) == ({record.job_id} if is_there else set())
    if is_there:
        artifact = container.archive.artifact(record.job_id, "out.nef", "local")
        assert b"".join(container.archive.read(artifact)) == b"nef"


def test_a_store_that_is_away_delays_the_archive_and_not_the_job(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, completion = in_last_stage(container), container.conversion.dispatch.completion

    def refuse(_: JobRecord) -> None:
        raise StoreUnavailable("The store is away.")

    with monkeypatch.context() as patched:
        patched.setattr(completion.descriptions, "write", refuse)
        report(container, record.job_id)
    assert container.store.require(record.job_id).status is Status.COMPLETED
    assert listed(container) == set()
    completion.catch_up()
    assert listed(container) == {record.job_id}
    assert container.store.unarchived() == []


def test_anothers_job_is_one_that_does_not_exist(container: Container) -> None:
    job_id = completed(container, "alice")
    assert listed(container, "bob") == set()
    messages = []
    for asked_for in (job_id, NOBODY):
        with pytest.raises(NotArchived) as refused:
            container.archive.delete(asked_for, "bob")
        messages.append(refused.value.message.replace(asked_for, ""))
    assert messages[0] == messages[1]
    assert listed(container, "alice") == {job_id}


@pytest.mark.parametrize("by", ["the archive", "the jobs"])
def test_what_is_deleted_is_gone_from_store_and_index(container: Container, by: str) -> None:
    job_id = completed(container)
    assert listed(container) == {job_id}
    container.archive.delete(job_id, "local") if by == "the archive" else container.conversion.jobs.delete(
        job_id, "local"
    )
    assert listed(container) == set()
    assert list(container.objects.list(object_keys.job(job_id))) == []
    assert list(container.objects.list(object_keys.OWNERS)) == []
    container.archive.rebuild()
    assert listed(container) == set()
    assert container.store.get(job_id) is None


def test_the_index_is_made_again_from_the_store_alone(container: Container) -> None:
    kept, other = completed(container), completed(container, "bob")
    container.conversion.edits.change(kept, "local", keep=True)
    before = container.archive.page(EVERYTHING, "local", limit=9)
    gone = completed(container)
    assert gone in listed(container)
    container.objects.delete(object_keys.description(gone))
    container.objects.put(object_keys.description(NOBODY), [b'{"format": "modelmill-job/1", "job": {'])
    with container.database.write() as conn:
        conn.exec_driver_sql(f"DELETE FROM conversion_archive WHERE job_id = '{kept}'")
    made = container.archive.rebuild()
    assert (made.jobs, made.removed, made.unreadable) == (2, 1, 1)
    assert container.archive.page(EVERYTHING, "local", limit=9) == before
    assert listed(container, "bob") == {other}


@pytest.mark.parametrize(
    ("criteria", "is_match"),
    [
        (ArchiveFilter(text="FACE"), True),
        (ArchiveFilter(text="night"), True),
        (ArchiveFilter(text="GRÖSSE"), True),
        (ArchiveFilter(text="%"), False),
        (ArchiveFilter(text="["), False),
        (ArchiveFilter(text='"'), False),
        (ArchiveFilter(text=", "), False),
        (ArchiveFilter(text="\\"), False),
        (ArchiveFilter(tag="night"), True),
        (ArchiveFilter(tag="nigh"), False),
        (ArchiveFilter(tag="xzy"), False),
        (ArchiveFilter(snr_min_db=25), True),
        (ArchiveFilter(snr_min_db=25.1), False),
        (ArchiveFilter(snr_max_db=24.9), False),
        (ArchiveFilter(verdict="PASSED"), True),
        (ArchiveFilter(verdict="BELOW_RULE"), False),
        (ArchiveFilter(toolchain="host"), True),
        (ArchiveFilter(platform="720"), False),
        (ArchiveFilter(model="0" * 64), False),
        (ArchiveFilter(since="2999"), False),
        (ArchiveFilter(until="2000"), False),
        (ArchiveFilter(is_kept=True), False),
    ],
)
def test_the_archive_is_searched(container: Container, criteria: ArchiveFilter, is_match: bool) -> None:
    job_id = completed(container, name="faces: größe")
    assert listed(container, criteria=criteria) == ({job_id} if is_match else set())


@pytest.mark.parametrize("text", ['say "no"', 'a", "b', "[x]", "[", "back\\slash", "Ä"])
def test_a_tag_is_matched_as_it_was_written(container: Container, text: str) -> None:
    job_id = completed(container)
    container.conversion.edits.change(job_id, "local", tags=("first", text, "last"))
    assert listed(container, criteria=ArchiveFilter(text=text)) == {job_id}
    assert listed(container, criteria=ArchiveFilter(text=text.lower())) == {job_id}
    assert listed(container, criteria=ArchiveFilter(tag=text)) == {job_id}
    assert listed(container, criteria=ArchiveFilter(text="first" + text)) == set()


@pytest.mark.slow
def test_pages_follow_each_other(container: Container) -> None:
    job_ids = {completed(container) for _ in range(5)}
    seen, cursor = [], None
    while True:
        rows, cursor = container.archive.page(EVERYTHING, "local", limit=2, cursor=cursor)
        seen += [row.job_id for row in rows]
        if cursor is None:
            break
    assert (len(seen), set(seen)) == (5, job_ids)


def test_jobs_expire_by_the_archives_days_unless_they_are_kept(container: Container) -> None:
    kept, other = completed(container), completed(container)
    container.conversion.edits.change(kept, "local", keep=True)
    expiry, days = container.conversion.expiry, container.settings.archive_days
    expiry.sweep(now() + timedelta(days=days, hours=-1))
    assert listed(container) == {kept, other}
    expiry.sweep(now() + timedelta(days=days, hours=1))
    assert listed(container) == {kept}
    assert list(container.objects.list(object_keys.job(other))) == []
    container.conversion.edits.change(kept, "local", keep=False)
    expiry.sweep(now() + timedelta(days=days, hours=2))
    assert listed(container) == set()


def test_a_deleted_users_jobs_go_also_those_that_were_kept(container: Container) -> None:
    container.accounts.users.create("alice", Role.USER, by="test")
    job_id, ttl_s = completed(container, "alice"), container.settings.record_ttl_s
    container.conversion.edits.change(job_id, "alice", keep=True)
    assert listed(container, "alice") == {job_id}
    container.archive.expire_deleted_users(now() + timedelta(seconds=ttl_s + 60))
    assert listed(container, "alice") == {job_id}
    container.accounts.users.delete("alice", by="test")
    container.archive.expire_deleted_users(now() + timedelta(seconds=ttl_s + 60))
    assert list(container.objects.list(object_keys.job(job_id))) == []
    assert listed(container, "alice") == set()


def test_what_is_changed_later_is_changed_in_the_archive_too(container: Container) -> None:
    job_id = completed(container, name="before")
    container.conversion.edits.change(job_id, "local", name="after", keep=True)
    container.redis.flushall()
    (row,) = container.archive.page(EVERYTHING, "local", limit=9)[0]
    assert (row.name, row.is_kept) == ("after", True)


def test_a_job_that_only_the_archive_has_is_changed_there(container: Container) -> None:
    job_id = completed(container, name="before")
    container.redis.flushall()
    container.conversion.edits.change(job_id, "local", name="after", notes="the board's", keep=True)
    container.conversion.edits.tag(job_id, "local", add=["late"], remove=["Night"])
    (row,) = container.archive.page(EVERYTHING, "local", limit=9)[0]
    assert (row.name, row.tags, row.is_kept) == ("after", ("x_y", "late"), True)
    archived = container.archive.get(job_id, "local").record
    assert (archived.name, archived.notes, archived.keep) == ("after", "the board's", True)
    assert container.store.get(job_id) is None, "a reset stays a reset"
    with pytest.raises(JobNotFound):
        container.conversion.edits.change(job_id, "alice", name="mine")


def test_what_ends_or_is_deleted_while_the_index_is_rebuilt_is_in_it_or_not(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = completed(container), completed(container)
    archive, late = container.archive, list[str]()
    assert listed(container) == {stays, goes}
    read = archive.descriptions.read

    def read_and_go_on(job_id: str) -> ArchivedJob | None:
        archived = read(job_id)
        if job_id == goes and not late:
            late.append(completed(container))
            assert listed(container) == {stays, goes, *late}
            archive.delete(goes, "local")
        return archived

    with monkeypatch.context() as patched:
        patched.setattr(archive.descriptions, "read", read_and_go_on)
        archive.rebuild()
    assert listed(container) == {stays, *late}


def test_edits_at_once_of_a_job_of_the_archive_are_all_made(container: Container) -> None:
    job_id = completed(container)
    container.redis.flushall()
    tags = [f"t{number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda tag: container.conversion.edits.tag(job_id, "local", add=[tag], remove=[]), tags))
    assert set(container.archive.get(job_id, "local").record.tags) == {"Night", "x_y", *tags}


def test_an_edit_brings_no_deleted_job_back(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, edits = completed(container), container.conversion.edits
    container.redis.flushall()
    write = edits.jobs.descriptions.write

    def write_after_the_deletion(record: JobRecord) -> None:
        container.archive.delete(job_id, "local")
        write(record)

    monkeypatch.setattr(edits.jobs.descriptions, "write", write_after_the_deletion)
    with pytest.raises(JobNotFound):
        edits.change(job_id, "local", name="after")
    assert list(container.objects.list(object_keys.job(job_id))) == []


def test_a_job_that_is_kept_by_the_archive_says_so(container: Container) -> None:
    job_id = completed(container)
    container.conversion.edits.change(job_id, "local", keep=True)
    assert container.store.require(job_id).keep is True


def test_the_receipt_is_one_of_the_files_of_the_job_and_signed(container: Container) -> None:
    job_id = completed(container)
    artifact = container.archive.artifact(job_id, "receipt.json", "local")
    envelope = dsse.from_bytes(b"".join(container.archive.read(artifact)))
    key = container.conversion.receipts.public_key
    assert key is not None and envelope.is_signed_by([key])
    artifacts = container.store.require(job_id).artifacts
    statement = read_statement(envelope.payload)
    assert statement.subjects == {"out.nef": artifacts["out.nef"].sha256}
    assert statement.inputs["model.onnx"] == artifacts["model.onnx"].sha256


def test_the_receipt_names_the_parents_of_the_job_and_the_command_line_that_repeats_it(container: Container) -> None:
    record = replace(container.store.require(completed(container)), origin="hf://org/model", sweep_id="ab12")
    artifact = container.conversion.receipts.write(record)["receipt.json"]
    envelope = dsse.from_bytes(b"".join(container.archive.read(artifact)))
    predicate = json.loads(envelope.payload)["predicate"]
    assert predicate["modelmill_parents"] == ["hf://org/model", "sweep:ab12"]
    assert predicate["buildDefinition"]["externalParameters"]["command"] == [
        *("modelmill", "convert", "model.onnx", "quant.zip", "--options", "options.json")
    ]


def test_a_receipt_that_could_not_be_stored_follows(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    record, completion = in_last_stage(container), container.conversion.dispatch.completion

    def refuse(_: JobRecord) -> None:
        raise StoreUnavailable("The store is away.")

    with monkeypatch.context() as patched:
        patched.setattr(completion.receipts, "write", refuse)
        report(container, record.job_id)
    assert "receipt.json" not in container.store.require(record.job_id).artifacts
    completion.catch_up()
    assert "receipt.json" in container.store.require(record.job_id).artifacts
    assert container.archive.artifact(record.job_id, "receipt.json", "local")


def test_a_job_that_was_cancelled_meanwhile_keeps_no_receipt(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, receipts = in_last_stage(container), container.conversion.receipts
    write = receipts.write

    def cancel_then_write(finished: JobRecord) -> dict[str, Artifact]:
        container.conversion.jobs.cancel(record.job_id, "local")
        return write(finished)

    monkeypatch.setattr(receipts, "write", cancel_then_write)
    report(container, record.job_id)
    assert "receipt.json" not in container.store.require(record.job_id).artifacts
    with pytest.raises(ObjectMissing):
        container.objects.info(object_keys.extra_file(record.job_id, "receipt.json"))


def test_without_a_lasting_key_nothing_is_signed(container: Container) -> None:
    unsigned = Receipts(container.objects, secret=None, public_url=None)
    assert unsigned.public_key is None
    assert unsigned.write(in_last_stage(container)) == {}
