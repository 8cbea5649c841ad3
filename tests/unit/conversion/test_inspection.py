"""What `inspect` says of files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.conversion.errors import GitLfsPointer, TruncatedModel
from app.conversion.inspection import damage, inspect_file
from app.conversion.options import Chip
from app.conversion.toolchains.host import provenance
from app.conversion.toolchains.kneron.nef import TruncatedNef
from app.inference.runtimes import sessions
from app.kit.errors import NotFound
from tests.harness.models import small
from tests.harness.models.packed import host_nef
from tests.standins import kneron, nef_builder


def test_an_onnx_file_is_described(tmp_path: Path) -> None:
    path = small.write(tmp_path / "m.bin", small.conv())
    facts = inspect_file(path)
    assert (facts["kind"], facts["name"], facts["size_bytes"]) == ("onnx", "m.bin", path.stat().st_size)
    assert (facts["operators"], facts["macs"], facts["metadata"]) == ({"Conv": 1, "Relu": 1}, 6912, {})
    assert "operators_probably_missing" not in facts
    assert json.loads(json.dumps(facts)) == facts


def test_with_a_chip_the_operators_it_lacks_are_listed(tmp_path: Path) -> None:
    facts = inspect_file(small.write(tmp_path / "m.onnx", kneron.model()), Chip.KL520)
    assert facts["chip"] == "520"
    assert [entry["operator"] for entry in facts["operators_probably_missing"]] == ["Softmax"]


@pytest.mark.parametrize(("written", "kind"), [("bie", "host-bie"), ("onnx", "onnx")])
def test_our_own_stages_are_told_apart_by_their_metadata(tmp_path: Path, written: str, kind: str) -> None:
    model = small.conv()
    provenance.write(model, {provenance.KIND: written, provenance.SOURCE_SHA256: "abc"})
    facts = inspect_file(small.write(tmp_path / "out.bie", model))
    assert facts["kind"] == kind
    assert facts["metadata"][provenance.SOURCE_SHA256] == "abc"


def test_a_host_nef_shows_its_manifest_and_that_it_is_intact(tmp_path: Path) -> None:
    facts = inspect_file(host_nef(tmp_path / "out.nef"))
    assert (facts["kind"], facts["is_intact"]) == ("host-nef", True)
    assert facts["manifest"]["format"] == sessions.NEF_FORMAT
    assert facts["files"][sessions.MODEL]["size_bytes"] == 9


@pytest.mark.parametrize("content", [b"ort mOdel", b"another length"])
def test_a_host_nef_with_another_content_is_not_intact(tmp_path: Path, content: bytes) -> None:
    facts = inspect_file(host_nef(tmp_path / "out.nef", content))
    assert (facts["kind"], facts["is_intact"]) == ("host-nef", False)


@pytest.mark.parametrize("files", [{}, {"gone.bin": {"sha256": "0", "size_bytes": 1}}, {"model.ort": {}}, [], "x"])
def test_a_manifest_that_does_not_cover_the_model_is_not_intact(tmp_path: Path, files: Any) -> None:
    facts = inspect_file(host_nef(tmp_path / "out.nef", files=files))
    assert (facts["kind"], facts["is_intact"]) == ("host-nef", False)


def test_a_zip_with_a_strange_manifest_is_a_zip(tmp_path: Path) -> None:
    facts = inspect_file(host_nef(tmp_path / "out.nef", format="other"))
    assert facts["kind"] == "zip"
    assert "manifest" in facts["reason"]


def test_a_kneron_nef_is_read_by_its_own_reader(tmp_path: Path) -> None:
    (tmp_path / "models_520.nef").write_bytes(nef_builder.build())
    facts = inspect_file(tmp_path / "models_520.nef")
    assert (facts["kind"], facts["chip"], facts["crc_ok"]) == ("kneron-nef", "520", True)
    json.dumps(facts)


def test_what_is_damaged_is_named_and_what_is_not_is_not(tmp_path: Path) -> None:
    nef, host = nef_builder.build(), host_nef(tmp_path / "out.nef")
    for data, words in (
        (nef, ""),
        (nef_builder.build(nef_builder.Nef(changes={"crc": 5})), "wrong checksums (crc_ok)"),
        (nef_builder.build(nef_builder.Nef(changes={"header_crc": 5})), "wrong checksums (header_crc_ok)"),
        (host.read_bytes(), ""),
        (host.read_bytes()[:-30], "ends early or is damaged"),
        (b"text", "not an ONNX model"),
        (small.conv().SerializeToString(), ""),
    ):
        (tmp_path / "file").write_bytes(data)
        remark = damage(inspect_file(tmp_path / "file"))
        assert words in remark and bool(remark) is bool(words)
    assert "not what its manifest says" in damage(inspect_file(host_nef(tmp_path / "other.nef", b"ort mOdel")))


def test_a_kneron_nef_that_ends_early_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "cut.nef").write_bytes(nef_builder.build()[:400])
    with pytest.raises(TruncatedNef, match="ends early"):
        inspect_file(tmp_path / "cut.nef")


def test_a_zip_of_samples_is_counted(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "q.zip", "w") as archive:
        for name in ("a.jpg", "b.PNG", "c.npy", "d.txt"):
            archive.writestr(name, b"1")
    facts = inspect_file(tmp_path / "q.zip")
    assert (facts["kind"], facts["entries"], facts["samples"]) == ("zip", 4, {"image": 2, "npy": 1})


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04 cut", b"\x7fELF"])
def test_anything_else_is_unknown_with_a_reason(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    facts = inspect_file(tmp_path / "file")
    assert facts["kind"] == "unknown"
    assert facts["reason"]


def test_broken_models_are_errors_not_unknown(tmp_path: Path) -> None:
    (tmp_path / "lfs").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(GitLfsPointer):
        inspect_file(tmp_path / "lfs")
    (tmp_path / "cut").write_bytes(small.conv().SerializeToString()[:200])
    with pytest.raises(TruncatedModel):
        inspect_file(tmp_path / "cut")


def test_a_missing_file_and_a_folder_are_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(NotFound, match="there is no file"):
            inspect_file(path)
