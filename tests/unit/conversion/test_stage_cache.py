"""The cache of stages: what comes back, to whom, what is left out, and that nobody fails by it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.model import Artifact, JobRecord, Stage, Status
from app.conversion.options import Options
from app.conversion.service.expiry import CacheSweep
from app.conversion.stage_cache import CachedStage, CacheFigures, StageCache
from app.conversion.stages.reuse import StageReuse
from app.conversion.stages.workspace import Workspace
from app.kit.clock import now, to_text
from app.kit.objects import ObjectMissing, StoreFull, StoreUnavailable

KEY = "a" * 64
FILES = {"out.bie": b"quantized", "bie.json": b"{}", "bie.meta.json": b"more", "bie.log": b"it went well\n"}
SIZE = sum(map(len, FILES.values()))


@pytest.fixture
def cache(container: Container) -> StageCache:
    return StageCache(container.objects, max_bytes=10_000, is_shared=False)


def job(container: Container, owner: str = "alice") -> JobRecord:
    """In stage BIE."""
    begun = model.submitted(
        str(uuid4()), now=to_text(now()), owner=owner, name="", tags=(), options=Options(), inputs={}, intake={}
    )
    artifacts = {name: Artifact(name, 1, f"of {name}") for name in ("model.onnx", "quant.zip", "out.onnx")}
    return replace(begun, stage=Stage.BIE, status=Status.BIE, artifacts=artifacts)


def made(container: Container, record: JobRecord) -> CachedStage:
    """What its stage has stored."""
    files = {}
    for name, content in FILES.items():
        stored = container.objects.put(object_keys.output(record.job_id, Stage.BIE, name), [content])
        files[name] = Artifact(stored.key, stored.size_bytes, stored.sha256)
    return CachedStage(record.job_id, 840.5, {"snr_db": 25.0}, {"onnx": "1"}, files)


def kept(container: Container, cache: StageCache, key: str = KEY, owner: str = "alice") -> JobRecord:
    record = job(container, owner)
    cache.keep(record, key, made(container, record))
    return record


def content(container: Container, key: str) -> bytes:
    return b"".join(container.objects.read(key))


def stored(container: Container, prefix: str = object_keys.CACHE) -> list[str]:
    return [info.key for info in container.objects.list(prefix)]


def test_what_one_job_made_another_gets_as_its_own(container: Container, cache: StageCache) -> None:
    first, second = kept(container, cache), job(container)
    container.objects.delete_prefix(object_keys.job(first.job_id))
    cached = cache.find("alice", KEY)
    assert cached is not None
    assert (cached.job_id, cached.took_s, cached.summary) == (first.job_id, 840.5, {"snr_db": 25.0})
    artifacts = cache.restore(cached, second)
    assert artifacts is not None and set(artifacts) == set(FILES) - {"bie.log"}
    for name, artifact in artifacts.items():
        assert artifact.key == object_keys.output(second.job_id, Stage.BIE, name)
        assert content(container, artifact.key) == FILES[name]
    assert cache.log_of(cached, Stage.BIE, max_bytes=7) == b"it went"


def test_another_user_gets_it_only_where_it_is_shared(container: Container, cache: StageCache) -> None:
    kept(container, cache)
    assert cache.find("bob", KEY) is None
    shared = StageCache(container.objects, max_bytes=10_000, is_shared=True)
    assert shared.find("alice", KEY) is None
    kept(container, shared)
    assert shared.find("bob", KEY) is not None
    assert StageCache(container.objects, max_bytes=1, is_shared=False).find("+shared", KEY) is None


def test_who_deletes_a_job_deletes_what_it_has_put_there(container: Container, cache: StageCache) -> None:
    first = kept(container, cache)
    cache.forget_job("alice", job(container).job_id)
    assert cache.find("alice", KEY) is not None
    cache.forget_job("alice", first.job_id)
    assert stored(container) == []


def test_what_a_later_job_has_put_there_stays(container: Container, cache: StageCache) -> None:
    first, second = kept(container, cache), kept(container, cache)
    cache.forget_job("alice", first.job_id)
    cached = cache.find("alice", KEY)
    assert cached is not None and cached.job_id == second.job_id


def test_an_entry_without_its_files_is_none_and_leaves_nothing_at_the_job(
    container: Container, cache: StageCache
) -> None:
    kept(container, cache)
    second, cached = job(container), cache.find("alice", KEY)
    assert cached is not None
    container.objects.delete(cached.files["out.bie"].key)
    assert cache.restore(cached, second) is None
    assert stored(container, object_keys.job(second.job_id)) == []


@pytest.mark.parametrize("text", [b"", b"[]", b'{"format": "else"}', b'{"format": "modelmill-stage/1"}', b"\xff"])
def test_an_entry_that_cannot_be_read_is_none(container: Container, cache: StageCache, text: bytes) -> None:
    record = kept(container, cache)
    container.objects.put(f"{cache.folder('alice', KEY)}entry.json", [text])
    assert cache.find("alice", KEY) is None
    cache.forget_job("alice", record.job_id)


def test_what_is_larger_than_the_whole_cache_is_not_kept(container: Container) -> None:
    kept(container, StageCache(container.objects, max_bytes=SIZE - 1, is_shared=False))
    assert stored(container) == []


@pytest.mark.parametrize("error", [StoreFull("full"), StoreUnavailable("away"), ObjectMissing("gone")])
def test_a_store_in_trouble_costs_the_reuse_and_nothing_else(
    container: Container, cache: StageCache, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first = job(container)
    result = made(container, first)

    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(cache.objects, "copy", refuse)
        cache.keep(first, KEY, result)
    assert cache.find("alice", KEY) is None and stored(container) == []
    cache.keep(first, KEY, result)
    with monkeypatch.context() as patched:
        patched.setattr(cache.objects, "read", refuse)
        assert cache.find("alice", KEY) is None


def test_what_was_used_least_recently_goes_first(container: Container, cache: StageCache) -> None:
    keys = ["1" * 64, "2" * 64, "3" * 64]
    for key in keys:
        kept(container, cache, key)
    used = cache.find("alice", keys[0])
    assert used is not None
    cache.touch("alice", keys[0], used)
    figures = CacheFigures(container.redis)
    size_bytes = sum(info.size_bytes for info in container.objects.list(cache.folder("alice", keys[0])))
    assert figures.read().swept_at is None
    CacheSweep(container.objects, figures, max_bytes=3 * size_bytes).sweep(moment := now())
    assert figures.read().swept_at == moment
    assert [cache.find("alice", key) is not None for key in keys] == [True, True, True]
    CacheSweep(container.objects, figures, max_bytes=2 * size_bytes).sweep(now())
    assert [cache.find("alice", key) is not None for key in keys] == [True, False, True]
    assert (figures.read().entries, figures.read().size_bytes) == (2, 2 * size_bytes)
    CacheSweep(container.objects, figures, max_bytes=0).sweep(now())
    assert stored(container) == [] and figures.read().entries == 0


def test_copies_of_a_worker_that_died_go_after_an_hour(container: Container, cache: StageCache) -> None:
    kept(container, cache)
    container.objects.delete(f"{cache.folder('alice', KEY)}entry.json")
    sweep = CacheSweep(container.objects, CacheFigures(container.redis), max_bytes=10_000)
    sweep.sweep(now() + timedelta(minutes=59))
    assert stored(container)
    sweep.sweep(now() + timedelta(minutes=61))
    assert stored(container) == []


def test_a_use_is_counted_with_what_it_saved(container: Container) -> None:
    figures = CacheFigures(container.redis)
    figures.count_miss(Stage.ONNX)
    figures.count_hit(Stage.BIE, 12.5)
    figures.count_hit(Stage.BIE, 0.25)
    use = figures.read()
    assert (use.hits, use.misses["onnx"], use.saved_s) == ({"onnx": 0, "bie": 2, "nef": 0}, 1, 12.75)


def reuse_of(container: Container, max_bytes: int = 10_000) -> StageReuse:
    cache = StageCache(container.objects, max_bytes=max_bytes, is_shared=False)
    return StageReuse(container.settings, cache, CacheFigures(container.redis), container.conversion.work_leases)


def space_of(container: Container, record: JobRecord, tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "work", record, container.objects)


def test_a_worker_keeps_what_it_made_and_takes_it_for_the_next_job(container: Container, tmp_path: Path) -> None:
    reuse, first, second = reuse_of(container), job(container), job(container)
    files = {name: vars(file) for name, file in made(container, first).files.items()}
    facts = {"summary": {"snr_db": 25.0, "cpu_s": 900.0, "peak_bytes": 7}, "versions": {}, "artifacts": files}
    key = reuse.key_of(first)
    assert key is not None and key == reuse.key_of(second)
    with space_of(container, second, tmp_path) as space:
        assert reuse.take(space, key) is None
        reuse.keep(space_of(container, first, tmp_path), key, facts, took_s=840.4999)
        reused = reuse.take(space, key)
        log = space.log.read_bytes()
    assert reused is not None
    assert reused.cached.summary == {"snr_db": 25.0}, "what the run used is not used again"
    assert log == f"reused from job {first.job_id}, saved 14 min\nits log:\nit went well\n".encode()
    use = reuse.figures.read()
    assert (use.hits["bie"], use.misses["bie"], use.saved_s) == (1, 1, 840.5)


def test_who_wants_no_cache_gets_none_and_fills_it_all_the_same(container: Container, tmp_path: Path) -> None:
    reuse, first = reuse_of(container), replace(job(container), no_cache=True)
    key = reuse.key_of(first)
    assert key is not None
    reuse.cache.keep(first, key, made(container, first))
    with space_of(container, first, tmp_path) as space:
        assert reuse.take(space, key) is None
    assert reuse_of(container, max_bytes=0).key_of(first) is None


def test_an_entry_names_its_format(container: Container, cache: StageCache) -> None:
    kept(container, cache)
    entry = json.loads(content(container, f"{cache.folder('alice', KEY)}entry.json"))
    assert entry["format"] == "modelmill-stage/1"
    assert set(entry["files"]) == set(FILES)
