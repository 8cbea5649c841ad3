"""Sources and targets as they are written."""

from __future__ import annotations

import pytest

from app.exchange.errors import BadSource, BadTarget
from app.exchange.model import TRANSFER, Direction, Kind, Transfer, read_source, read_target


@pytest.mark.parametrize(
    ("text", "kind", "parts", "name"),
    [
        ("hf://org/model", Kind.HUB, {"repo": "org/model"}, "model"),
        ("hf://org/model:onnx/a.onnx", Kind.HUB, {"repo": "org/model", "file": "onnx/a.onnx"}, "a.onnx"),
        ("hf://org/model@v1.0:a.onnx", Kind.HUB, {"repo": "org/model", "revision": "v1.0", "file": "a.onnx"}, "a.onnx"),
        ("mlflow://run/0a1b/model/a.onnx", Kind.RUN, {"run": "0a1b", "path": "model/a.onnx"}, "a.onnx"),
        ("models:/detector/3", Kind.REGISTERED, {"name": "detector", "version": "3"}, "detector"),
        ("models:/detector@champion", Kind.REGISTERED, {"name": "detector", "alias": "champion"}, "detector"),
        ("s3://some-bucket/a/b.onnx", Kind.S3, {"bucket": "some-bucket", "key": "a/b.onnx"}, "b.onnx"),
        ("https://host.example/a/b.onnx?x=1", Kind.URL, {}, "b.onnx"),
    ],
)
def test_sources_are_read(text: str, kind: Kind, parts: dict[str, str], name: str) -> None:
    source = read_source(f" {text} ")
    assert (source.kind, source.parts, source.text) == (kind, parts, text)
    assert source.name == name or kind is Kind.RUN or kind is Kind.S3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model.onnx",
        "ftp://host/a.onnx",
        "http://host/a.onnx",
        "https://[::1",
        "https://host:port/a.onnx",
        "hf://model",
        "hf://org/../secret",
        "hf:org/model",
        "mlflow://run/0a1b",
        "models:/detector",
        "models:/detector/three",
        "s3://bucket",
        "s3://bucket/../../etc/passwd",
        "https://user:password@host/a.onnx",
        "https:///a.onnx",
        "https://my host/a.onnx",
        "hf://org/model\n",
        "file:///etc/passwd",
    ],
)
def test_what_is_no_source_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(BadSource, match="not a source of models") as refused:
        read_source(text + "\x00" if text.endswith("\n") else text)
    assert "hf://org/model" in refused.value.hint


def test_the_origin_of_a_model_has_no_signature_of_its_url() -> None:
    assert read_source("https://host.example/a.onnx?X-Amz-Signature=1#b").origin == "https://host.example/a.onnx"
    assert read_source("hf://org/model@v1:a.onnx").origin == "hf://org/model@v1:a.onnx"


def test_targets_are_read() -> None:
    assert read_target("hf://org/model").name == "org/model"
    assert read_target("mlflow://experiment/my detectors").name == "my detectors"


@pytest.mark.parametrize("text", ["hf://model", "hf://org/model:file", "mlflow://experiment/", "s3://bucket/key", "x"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(BadTarget, match="not a place that results can be pushed to"):
        read_target(text)


def test_a_transfer_survives_being_written() -> None:
    transfer = Transfer("1", Direction.IN, "hf://a/b", "alice", "2030-01-01T00:00:00Z", total_bytes=3)
    assert TRANSFER.read(TRANSFER.write(transfer)) == transfer
