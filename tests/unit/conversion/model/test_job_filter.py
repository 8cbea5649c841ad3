from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.conversion import model
from app.conversion.model import Stage, StageRecord, StageState, Status
from app.conversion.model.digest import JobDigest, digest, pieces
from app.conversion.model.job_filter import BadFilter, parse
from app.conversion.options import HostQuantization, Options
from app.kit.clock import to_text

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def job(name: str = "YuNet_dynamic", snr_db: float = 16.2, *, age: timedelta = timedelta(hours=1)) -> JobDigest:
    record = model.submitted(
        "0a1b2c3d-0000-4000-8000-000000000000",
        now=to_text(NOW - age),
        owner="Ann",
        name=name,
        tags=("Nightly", "two words"),
        options=Options(quantization=HostQuantization(goal="")),
        inputs={},
        intake={"model_name": "face_yunet.onnx"},
    )
    summary = {"snr_db": snr_db, "passed": snr_db >= 20, "size_bytes": 196_608, "latency_ms": 31.4}
    stages = {**record.stages, Stage.BIE.step: StageRecord(state=StageState.DONE, summary=summary)}
    finished = to_text(NOW - age + timedelta(seconds=52))
    return digest(replace(record, status=Status.COMPLETED, stages=stages, finished_at=finished))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "status:completed",
        "STATUS:Ended",
        "status:failed,completed",
        "verdict:below",
        "snr:<20",
        "snr:16.2",
        "snr:>=16.2dB",
        "snr:10..20",
        "snr:..17",
        "size:192K",
        "size:>100k size:<1M",
        "latency:>30ms latency:<0.1s",
        "took:52",
        "took:<1m",
        "created:<2h",
        "created:>30m",
        "created:30m..2h",
        "created:2026-11-20",
        "created:>=2026-11-20 created:<2026-11-21",
        "tag:nightly",
        'tag:"two words"',
        "target:host owner:ann method:best",
        "yunet",
        "dyna",
        "net_dyn",
        "model:face name:yunet",
        "0a1b2c3d-0000",
        "id:0a1b",
        "nightly snr:<20 status:completed",
    ],
)
def test_a_filter_accepts_what_it_says(text: str) -> None:
    assert parse(text, now=NOW).accepts(job())


@pytest.mark.parametrize(
    "text",
    [
        "status:failed",
        "status:running",
        "verdict:passed",
        "snr:<16.2",
        "snr:>16.2",
        "snr:20..30",
        "size:<192K",
        "latency:>1s",
        "took:>1m",
        "created:<30m",
        "created:>2h",
        "created:2h..3h",
        "created:2026-11-19",
        "created:<2026-11-20",
        "created:>2026-11-20",
        "tag:night",
        "tag:words",
        "target:kl520",
        "owner:bob",
        "mobilenet",
        "name:face",
        "model:dynamic",
        "id:1b2c",
        "yunet snr:>20",
    ],
)
def test_a_filter_refuses_what_it_does_not_say(text: str) -> None:
    assert not parse(text, now=NOW).accepts(job())


@pytest.mark.parametrize("text", ["created:>99999999999d", "created:<=9999-12-31", f"snr:<{'9' * 400}"])
def test_no_bound_is_too_large(text: str) -> None:
    parse(text, now=NOW)


def test_a_job_without_the_number_fits_no_bound_of_it() -> None:
    young = replace(job(), numbers={"created": NOW.timestamp()})
    assert not any(parse(text, now=NOW).accepts(young) for text in ("snr:<20", "snr:>=0", "size:..9G", "took:>0"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour:red", "no filter 'colour'"),
        ("status:done", "no status 'done'"),
        ("snr:low", "'low' is no value"),
        ("snr:<20KB", "'<20kb' is no value"),
        ("size:10dB", "'10db' is no value"),
        ("created:2026-13-01", "no day 2026-13-01"),
        ('name:"open', "quotation mark is not closed"),
        ("snr:<20 :failed", "':failed' is not understood"),
        ("tag:,", "has no value"),
        ("***", "neither letters nor digits"),
        (" ".join(["a"] * 21), "21 terms"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_reason_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(BadFilter) as refused:
        parse(text, now=NOW)
    assert message in refused.value.message
    assert refused.value.hint


def test_words_are_runs_of_letters_or_digits_of_any_script() -> None:
    assert pieces("YOLO_v8-n.onnx 臉部(新)") == ("yolo", "v8", "n", "onnx", "臉部", "新")
    assert parse("臉部", now=NOW).accepts(job("我的臉部模型"))


def test_where_the_models_file_is_not_known_its_name_is_the_jobs() -> None:
    record = model.submitted(
        "x", now=to_text(NOW), owner="ann", name="yolo 1", tags=(), options=Options(), inputs={}, intake={}
    )
    assert parse("model:yolo", now=NOW).accepts(digest(record))
