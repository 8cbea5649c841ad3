"""How a job looks to a reader."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import Any

from app.conversion.model import Artifact, Stage, submitted
from app.conversion.options import Chip, HostQuantization, KneronOptions, Options, Preprocess, ToolchainName
from app.conversion.pages import view_models
from app.kit.web.templates import environment
from app.kit.web.zip_stream import zip_stream

A_JOB = submitted(
    "id", now="2026-11-20T20:00:00.000Z", owner="", name="", tags=(), options=Options(), inputs={}, intake={}
)


def test_options_that_were_chosen_come_before_those_left_alone() -> None:
    options = Options(
        quantization=HostQuantization(method="percentile"),
        preprocess=Preprocess(mean=(1.0, 2.0, 3.0)),
        input_shapes={"x": (1, 3, 8, 8)},
    )
    rows = view_models.parameters(options)
    chosen = {parameter.name: parameter.value for parameter in rows if not parameter.is_default}
    assert chosen == {
        "goal": "none",
        "method": "percentile",
        "preprocess.mean": "1, 2, 3",
        "input_shapes": "x: 1 × 3 × 8 × 8",
    }
    assert [parameter.is_default for parameter in rows] == sorted(parameter.is_default for parameter in rows)


def test_options_of_the_other_toolchain_are_not_shown() -> None:
    kneron = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720, kneron=KneronOptions(model_id=40000))
    names = {parameter.name for parameter in view_models.parameters(kneron)}
    assert {"model_id", "platform"} <= names and "method" not in names
    assert "model_id" not in {parameter.name for parameter in view_models.parameters(Options())}


def test_words_among_the_values_are_translated_and_names_are_not() -> None:
    template = '{% from "conversion/_state.html" import option_value %}{{ option_value(value) }}'
    shown = {
        value: environment("zh-Hant").from_string(template).render(value=value)
        for value in ("yes", "no", "none", "minmax", "1, 2, 3")
    }
    assert shown == {"yes": "是", "no": "否", "none": "無", "minmax": "minmax", "1, 2, 3": "1, 2, 3"}


def test_outputs_come_first_and_inputs_last() -> None:
    names = ("model.onnx", "bie.log", "out.nef", "nef.json", "out.onnx", "kneron.html", "onnx.json", "quant.zip")
    rows = view_models.files({name: Artifact(name, 1, "ab") for name in names})
    assert [file.name for file in rows][:4] == ["out.onnx", "out.nef", "onnx.json", "nef.json"]
    assert [file.name for file in rows][4:] == ["kneron.html", "bie.log", "model.onnx", "quant.zip"]


def test_a_job_names_the_task_that_trained_its_model_if_one_did() -> None:
    origins = [
        view_models.find_training_task(replace(A_JOB, origin=origin)) for origin in ("", "task:mvp2-a", "camera:7")
    ]
    assert origins == ["", "mvp2-a", ""]


def test_a_job_names_the_uri_that_its_model_was_fetched_from() -> None:
    uris = ("hf://org/model", "models:/detector/3", "s3://models/a.onnx")
    assert tuple(view_models.find_source_uri(replace(A_JOB, origin=uri)) for uri in uris) == uris
    assert not any(view_models.find_source_uri(replace(A_JOB, origin=origin)) for origin in ("", "task:a", "sweep:a"))


def test_a_job_that_has_not_ended_has_no_duration() -> None:
    assert view_models.took_s(A_JOB) is None
    assert view_models.log_stage(A_JOB) is Stage.ONNX


def test_details_of_an_error_are_short_values_with_readable_sizes() -> None:
    detail: dict[str, Any] = {
        "peak_bytes": 1536,
        "node": "conv1",
        "said": "",
        "problems": [{"a": 1}],
        "tree": {"a": 1},
        "count": 3,
    }
    detail["nodes"] = ["a", "b"]
    shown = dict(view_models.facts(detail))
    assert shown == {"peak": "1.5 KiB", "node": "conv1", "count": "3", "nodes": "a, b"}


def test_a_streamed_zip_holds_what_went_in_and_holds_nothing_back() -> None:
    def chunks() -> list[bytes]:
        return [b"x" * 1000] * 3

    pieces = list(zip_stream([("a.bin", iter(chunks())), ("ü.txt", [b"text"]), ("empty", [])]))
    assert max(map(len, pieces)) < 2000
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as packed:
        assert packed.namelist() == ["a.bin", "ü.txt", "empty"]
        assert packed.read("a.bin") == b"x" * 3000 and packed.testzip() is None


def test_the_duration_counts_from_the_submission() -> None:
    record = replace(A_JOB, finished_at="2026-11-20T20:01:00.000Z")
    assert view_models.took_s(record) == 60
