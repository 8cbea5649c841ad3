"""`modelmill verify`: what it says of files that are as they were, and of everything that was changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversion import model
from app.conversion.model import Artifact, JobRecord
from app.conversion.model.receipt import PAYLOAD_TYPE, Builder, NoStatement, read_statement, statement
from app.conversion.options import Options
from app.kit.files import sha256_of
from app.kit.signatures import dsse
from app.kit.signatures.keys import SigningKey
from tests.harness.command_line import typed

KEY, OTHER = SigningKey("secret", "tests"), SigningKey("another secret", "tests")
JOB = "6f1d0c7e-3a52-4c4e-9d0c-0b54e1a6c001"
Say = Callable[..., tuple[int, str]]


def record(folder: Path) -> JobRecord:
    names = [path.name for path in sorted(folder.iterdir())]
    begun = model.submitted(
        JOB,
        now="2026-11-24T00:00:00Z",
        owner="alice",
        name="secret plans",
        tags=(),
        options=Options(),
        inputs={},
        intake={},
    )
    artifacts = {name: Artifact(f"jobs/{JOB}/{name}", 1, sha256_of(folder / name)) for name in names}
    return replace(begun, artifacts=artifacts, finished_at="2026-11-24T00:01:00Z", origin="task:t1")


def signed(described: JobRecord, key: SigningKey = KEY, names: SigningKey | None = None) -> bytes:
    builder = Builder("urn:test", "0.1", (names or key).public.pem)
    return dsse.sign(json.dumps(statement(described, builder)).encode(), PAYLOAD_TYPE, key).to_bytes()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    for name in ("model.onnx", "quant.zip", "out.onnx", "out.bie", "out.nef", "nef.json"):
        (folder / name).write_bytes(name.encode())
    (folder / "receipt.json").write_bytes(signed(record(folder)))
    (tmp_path / "key.pem").write_text(KEY.public.pem)
    (tmp_path / "other.pem").write_text(OTHER.public.pem)
    return folder


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.delenv("MODELMILL_RECEIPT_KEY", raising=False)

    def verify(*words: object) -> tuple[int, str]:
        code = typed(monkeypatch, "verify", *words)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return verify


def test_a_statement_names_inputs_outputs_parents_and_nobody(results: Path) -> None:
    described = record(results)
    document = statement(described, Builder("urn:test", "0.1", KEY.public.pem))
    text = json.dumps(document)
    assert "alice" not in text and "secret plans" not in text
    assert [subject["name"] for subject in document["subject"]] == ["nef.json", "out.bie", "out.nef", "out.onnx"]
    stages = document["predicate"]["buildDefinition"]["internalParameters"]["stages"]
    assert [one["name"] for one in stages["bie"]["materials"]] == ["out.onnx", "quant.zip"]
    assert [one["name"] for one in stages["nef"]["materials"]] == ["out.bie"]
    assert [one["name"] for one in stages["nef"]["products"]] == ["out.nef", "nef.json"]
    assert document["predicate"]["modelmill_parents"] == ["task:t1"]
    read = read_statement(text.encode())
    assert read.inputs == {name: described.artifacts[name].sha256 for name in ("model.onnx", "quant.zip")}
    assert (read.job_id, read.finished_at) == (JOB, "2026-11-24T00:01:00Z")


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"_type": "x", "predicate": {"buildDefinition": {}}}'])
def test_a_statement_about_something_else_is_refused(text: str) -> None:
    with pytest.raises(NoStatement):
        read_statement(text.encode())


def test_files_that_are_as_they_were_pass_alone_and_as_a_folder(results: Path, say: Say) -> None:
    code, output = say(results / "out.nef")
    assert code == 0 and "as the receipt says" in output and "--key makes sure" in output
    code, output = say(results, "--key", results.parent / "key.pem")
    assert code == 0 and output.count("as the receipt says") == 6 and "the key given" in output


def test_a_renamed_file_is_known_by_its_content(results: Path, say: Say) -> None:
    renamed = results / "faces.nef"
    (results / "out.nef").rename(renamed)
    code, output = say(renamed)
    assert code == 0 and "which the receipt calls out.nef" in output


def test_a_changed_file_is_named_with_both_digests(results: Path, say: Say) -> None:
    before = sha256_of(results / "out.nef")
    (results / "out.nef").write_bytes(b"out.nef, and something more")
    code, output = say(results)
    assert code == 1 and output.count("CHANGED") == 1
    assert before in output and sha256_of(results / "out.nef") in output


def test_a_file_of_another_conversion_is_told(results: Path, say: Say, tmp_path: Path) -> None:
    stranger = tmp_path / "another.nef"
    stranger.write_bytes(b"of another conversion")
    code, output = say(stranger, "--receipt", results / "receipt.json")
    assert code == 1 and "NOT IN THE RECEIPT" in output


def test_another_key_is_told_from_a_changed_receipt(results: Path, say: Say) -> None:
    code, output = say(results / "out.nef", "--key", results.parent / "other.pem")
    assert code == 1 and "ANOTHER KEY" in output and OTHER.public.key_id[:16] in output
    document = json.loads((results / "receipt.json").read_bytes())
    payload = base64.b64decode(document["payload"]).replace(b"00:01:00", b"00:02:00")
    document["payload"] = base64.b64encode(payload).decode()
    (results / "receipt.json").write_text(json.dumps(document))
    for key in ([], ["--key", results.parent / "key.pem"]):
        code, output = say(results / "out.nef", *key)
        assert code == 1 and "receipt: CHANGED" in output


def test_who_signs_anew_and_keeps_the_name_of_the_key_is_found_out(results: Path, say: Say) -> None:
    (results / "receipt.json").write_bytes(signed(record(results), OTHER, names=KEY))
    assert say(results / "out.nef", "--key", results.parent / "key.pem")[0] == 1
    assert say(results / "out.nef")[0] == 1


def test_the_key_may_be_set_for_all_calls(results: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMILL_RECEIPT_KEY", str(results.parent / "other.pem"))
    assert say(results / "out.nef")[0] == 1


def test_as_json(results: Path, say: Say) -> None:
    code, output = say(results / "out.nef", "--json")
    answer = json.loads(output)
    assert code == 0
    assert (answer["job_id"], answer["signature"], answer["is_key_given"]) == (JOB, "VALID", False)
    assert [file["outcome"] for file in answer["files"]] == ["SAME"]


def test_what_is_missing_or_none_is_said(results: Path, say: Say, tmp_path: Path) -> None:
    assert say(tmp_path / "nothing.nef", "--receipt", results / "receipt.json")[0] == 4
    assert say(results / "out.nef", "--receipt", tmp_path / "nothing.json")[0] == 4
    assert say(results / "out.nef", "--key", tmp_path / "nothing.pem")[0] == 4
    assert say(results / "out.nef", "--receipt", results / "out.bie")[0] == 2
    assert say(results / "out.nef", "--key", results / "out.bie")[0] == 2
    (tmp_path / "empty").mkdir()
    assert say(tmp_path / "empty", "--receipt", results / "receipt.json")[0] == 2
    assert say(results / "out.nef", "--key", "http://127.0.0.1:9")[0] == 3
