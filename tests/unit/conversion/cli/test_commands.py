"""The command line: what it says, what it refuses and the exit codes that a script can rely on."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from rich.console import Console

from app.conversion.cli.conversion import fetch, packed
from app.conversion.cli.job_report import lack_of_quality
from app.conversion.cli.option_flags import numbers, options_of, preprocess_flags, steps_of
from app.conversion.cli.progress import ProgressLines, stage_text
from app.conversion.cli.tables import candidates_table, facts_of_quality, plain, quality_table
from app.conversion.errors import NoSamples
from app.kit.cli.command import Exit
from app.kit.clock import age
from app.kit.errors import BadInput, BadRequest, NotFound
from tests.harness.command_line import typed
from tests.standins.nef_builder import Nef, build

NOBODY = "http://127.0.0.1:1"


def test_the_version_is_the_distributions(monkeypatch, capsys):
    assert typed(monkeypatch, "--version") == Exit.OK
    assert capsys.readouterr().out.startswith("modelmill ")


@pytest.mark.parametrize("command", ["jobs list", "train list", "train logs x", "joint delete x", "video list"])
def test_when_nothing_answers_one_sentence_says_how_to_start_it(monkeypatch, capsys, command):
    assert typed(monkeypatch, "--url", NOBODY, *command.split()) == Exit.UNREACHABLE
    stderr = capsys.readouterr().err
    assert f"nothing answers at {NOBODY}" in stderr
    assert "modelmill up" in stderr


def test_the_url_may_stand_behind_the_command_too(monkeypatch, capsys):
    assert typed(monkeypatch, "jobs", "list", "--url", NOBODY) == Exit.UNREACHABLE
    assert NOBODY in capsys.readouterr().err


def test_an_address_that_is_none_is_bad_usage(monkeypatch, capsys):
    assert typed(monkeypatch, "--url", "here", "jobs", "list") == Exit.BAD_INPUT
    assert "here is no address" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_not_found(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "convert", tmp_path / "no.onnx", tmp_path, "--url", NOBODY) == Exit.NOT_FOUND
    assert "there is no model" in capsys.readouterr().err


def test_a_folder_in_place_of_the_model_is_named(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "convert", tmp_path, tmp_path, "--url", NOBODY) == Exit.BAD_INPUT
    assert f"the model {tmp_path} is a folder" in capsys.readouterr().err


def test_options_are_checked_before_anything_is_sent(monkeypatch, capsys, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(b"x")
    assert typed(monkeypatch, "convert", model, tmp_path, "--chip", "520", "--url", NOBODY) == Exit.BAD_INPUT
    assert "platform is for toolchain kneron" in capsys.readouterr().err


def test_inspecting_a_file_that_is_not_there_is_not_found(monkeypatch, tmp_path):
    assert typed(monkeypatch, "inspect", tmp_path / "nothing") == Exit.NOT_FOUND


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (build(Nef(changes={"crc": 5})), "wrong checksums"),
        (build()[:400], "ends early"),
        (b"PK\x03\x04", "ends early"),
        (b"text", "not an ONNX model"),
    ],
)
def test_inspecting_what_is_damaged_fails_with_the_cause(monkeypatch, capsys, tmp_path, data, words, flags):
    (tmp_path / "x.nef").write_bytes(data)
    assert typed(monkeypatch, "inspect", tmp_path / "x.nef", *flags) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err


def test_an_unknown_chip_is_bad_usage(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "inspect", tmp_path, "--chip", "999") == Exit.BAD_INPUT
    assert "520" in capsys.readouterr().err


def test_an_unknown_step_is_bad_usage(monkeypatch):
    assert typed(monkeypatch, "jobs", "logs", "0123", "cat", "--url", NOBODY) == Exit.BAD_INPUT


# --- options --------------------------------------------------------------------------------------
def test_flags_are_laid_over_the_options_file(tmp_path):
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"preprocess": {"color": "BGR", "scale": 1}, "quantization": {"method": "entropy"}}))

    chosen = options_of(file, {"preprocess.color": "RGB"}, ["input=1,3,224,224"])

    assert chosen == {
        "preprocess": {"color": "RGB", "scale": 1},
        "quantization": {"method": "entropy"},
        "input_shapes": {"input": [1, 3, 224, 224]},
    }


def test_the_verdict_says_if_the_float_model_finds_nothing_in_the_pictures():
    verdict = {"passed": False, "snr_db": -110.0, "rule": "20 dB"}
    for shows_nothing in (True, False):
        [line] = facts_of_quality({"verdict": {**verdict, "shows_nothing": shows_nothing}})
        assert ("on pictures in which the float model finds nothing" in line) == shows_nothing


def test_the_candidates_show_the_loss_of_the_task_its_front_and_why_each_was_not_taken():
    rows = [
        {"id": 3, "name": "loud", "snr_db": 30.0, "drop_percent": 4.0, "size_bytes": 9, "verdict_code": "below_goal"},
        {"id": 5, "name": "quiet", "snr_db": 9.0, "drop_percent": 0.5, "size_bytes": 9, "is_taken": True},
    ]
    report = {"goal": {"text": "drop<=1%", "kind": "drop", "is_reached": True}, "search": {"candidates": rows}}
    table = candidates_table(report)
    cells = {column.header: list(column.cells) for column in table.columns}
    assert cells["task loss %"] == ["4.0", "0.5"] and cells[""] == ["below goal", "taken *"]
    assert cells["id"] == ["3", "5"] and table.title == "Candidates for drop<=1%, which is reached"
    assert candidates_table({**report, "goal": None}).title == "Candidates"
    assert "task loss" in str(table.caption) and "--start" not in str(table.caption)
    for row in rows:
        row["steps"] = [{"kind": "range", "method": row["name"]}]
    assert "--start bie.json:ID" in str(candidates_table(report).caption)
    report["goal"]["kind"] = "snr"
    assert list(candidates_table(report).columns[-1].cells) == ["below goal *", "taken"]
    for row in rows:
        del row["drop_percent"]
    assert "task loss %" not in [column.header for column in candidates_table(report).columns]


def test_a_conversion_begins_with_what_a_report_has_taken_or_with_another_of_its_candidates(tmp_path):
    report, steps = tmp_path / "bie.json", [[{"kind": "range", "method": name}] for name in ("minmax", "mse")]
    candidates = [{"id": id_, "steps": steps[id_], "is_taken": id_ == 1} for id_ in (0, 1)]
    report.write_text(json.dumps({"search": {"candidates": candidates}}))
    assert (steps_of(str(report)), steps_of(f"{report}:0")) == (steps[1], steps[0])
    assert options_of(None, {"quantization.steps": steps[0], "quantization.goal": "none"}, [])
    with pytest.raises(BadRequest, match="--start"):
        steps_of(f"{report}:7")
    with pytest.raises(NotFound, match=r"none\.json"):
        steps_of(str(tmp_path / "none.json"))


def test_a_preprocessing_is_named_or_written_out():
    assert preprocess_flags(None) == {}
    assert preprocess_flags("bytes_bgr")["preprocess.color"] == "BGR"
    assert preprocess_flags('{"color": "BGR", "scale": 1}') == {"preprocess.color": "BGR", "preprocess.scale": 1}


@pytest.mark.parametrize("text", ["imagnet", "[1]", "{"])
def test_a_preprocessing_that_is_none_is_refused(text):
    with pytest.raises(BadRequest, match="neither a name nor a JSON object"):
        preprocess_flags(text)


def test_results_that_cannot_be_written_are_said(tmp_path):
    def download_files(record, folder, names):
        folder.mkdir()

    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"cannot write to .*file/out: Not a directory"):
        fetch(SimpleNamespace(download_files=download_files), {}, tmp_path / "file" / "out")


def test_an_input_name_may_hold_an_equals_sign():
    assert options_of(None, {}, ["a=b=1,8"])["input_shapes"] == {"a=b": [1, 8]}


@pytest.mark.parametrize("text", ["input", "=1,3", "input=", "input=1,x", "input=1,,3"])
def test_a_shape_that_is_none_is_refused(text):
    with pytest.raises(BadRequest, match="is no shape"):
        options_of(None, {}, [text])


def test_a_shape_with_a_zero_is_refused_by_the_services_own_rule():
    with pytest.raises(BadRequest, match=r"input_shapes\.input"):
        options_of(None, {}, ["input=0,3"])


@pytest.mark.parametrize("content", ["{", "[]", '"x"'])
def test_an_options_file_that_is_no_object_is_refused(tmp_path, content):
    file = tmp_path / "options.json"
    file.write_text(content)
    with pytest.raises(BadRequest, match=r"options\.json cannot be read"):
        options_of(file, {}, [])


def test_numbers_are_one_or_one_per_channel():
    assert numbers("127", "--mean") == [127.0]
    assert numbers("0.485, 0.456,0.406", "--mean") == [0.485, 0.456, 0.406]
    with pytest.raises(BadRequest, match="--mean"):
        numbers("a,b", "--mean")


# --- images ---------------------------------------------------------------------------------------
def test_a_lone_file_is_sent_as_it_is(tmp_path):
    archive = tmp_path / "images.zip"
    archive.write_bytes(b"anything")
    with packed([archive]) as path:
        assert path == archive


def test_a_folder_becomes_a_zip_that_only_stores_and_leaves_out_what_is_no_sample(tmp_path):
    for name in ("a.png", "sub/b.JPG", "c.npy", "notes.txt", ".hidden.png", ".git/d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    with packed([tmp_path]) as path, zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["a.png", "c.npy", "sub/b.JPG"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    assert not path.exists()


def test_files_of_the_same_name_from_two_folders_stay_apart(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.png").write_bytes(folder.encode())
    with packed([tmp_path / "one", tmp_path / "two" / "a.png"]) as path, zipfile.ZipFile(path) as archive:
        assert sorted(archive.read(name) for name in archive.namelist()) == [b"one", b"two"]


def test_labels_go_with_the_images_that_they_name(tmp_path):
    (tmp_path / "day").mkdir()
    for name in ("day/a.png", "day/labels.json", "labels.csv"):
        (tmp_path / name).write_bytes(name.encode())
    for images, names in (
        ([tmp_path / "day"], {"a.png", "labels.json"}),
        ([tmp_path / "day" / "a.png", tmp_path / "labels.csv"], {"a.png", "labels.csv"}),
    ):
        with packed(images) as path, zipfile.ZipFile(path) as archive:
            assert set(archive.namelist()) == names
    with pytest.raises(NoSamples, match="no pictures"), packed([tmp_path / "labels.csv", tmp_path / "labels.csv"]):
        pass


def test_images_to_report_on_lie_in_a_folder_of_their_own(tmp_path):
    for folder in ("one", "two", "none"):
        (tmp_path / folder).mkdir()
    for name in ("one/a.png", "two/a.png"):
        (tmp_path / name).write_bytes(name.encode())
    with packed([tmp_path / "one"], tmp_path / "two") as path, zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "a.png": b"one/a.png",
            "report/a.png": b"two/a.png",
        }
    with pytest.raises(NoSamples, match="none"), packed([tmp_path / "one"], tmp_path / "none"):
        pass
    (tmp_path / "one.zip").write_bytes(b"PK")
    with pytest.raises(NoSamples, match="zip"), packed([tmp_path / "one.zip"], tmp_path / "two"):
        pass


def test_the_vendors_toolchain_takes_no_images_to_report_on(monkeypatch, capsys, tmp_path):
    arguments = ("convert", "m.onnx", str(tmp_path), "--toolchain", "kneron", "--report-images", str(tmp_path))
    assert typed(monkeypatch, *arguments) == Exit.BAD_INPUT
    assert "--report-images is for the toolchain host" in capsys.readouterr().err


def test_a_folder_without_samples_is_refused_before_anything_is_sent(tmp_path):
    with pytest.raises(NoSamples, match="no pictures"), packed([tmp_path]):
        pass


def test_images_that_are_not_there_are_not_found(tmp_path):
    with pytest.raises(NotFound), packed([tmp_path / "nothing"]):
        pass


# --- what is shown --------------------------------------------------------------------------------
def record(**bie) -> dict:
    stage = {"state": "WAITING", "progress": 0, "message": ""}
    stages = {"onnx": {**stage, "state": "DONE", "progress": 100}, "bie": {**stage, **bie}, "nef": stage}
    return {"status": "BIE", "stages": stages, "queue_position": 2, "error": None}


def test_a_queued_stage_says_how_many_are_ahead():
    assert stage_text(record(state="QUEUED"), "bie") == "queued, 2 ahead"


def test_a_running_stage_says_what_it_does():
    assert stage_text(record(state="RUNNING", message="calibrating 3/14"), "bie") == "calibrating 3/14"
    reused = record(state="DONE", reused_from="9fde157e-fc86-49e8-8bf1-1215ae570cff", saved_s=840.0)
    assert stage_text(reused, "bie") == "reused from job 9fde157e, saved 14 min"


def test_without_a_terminal_counting_up_is_not_worth_a_line(capsys):
    lines = ProgressLines(Console(width=200))
    for done in range(3):
        lines.show(record(state="RUNNING", progress=done, message=f"calibrating {done}/14"))
    assert capsys.readouterr().out.count("calibrating") == 1


def test_a_report_without_quality_is_no_trouble():
    assert quality_table({}).row_count == 0
    assert list(facts_of_quality({})) == []
    row = {"metric": "top-1", "float": 0.95, "int8": 0.9, "n": 20, "are_unseen": True}
    [fact] = facts_of_quality({"labels": [row]})
    assert fact == "top-1: 0.950 float, 0.900 int8, 20 labeled pictures (not used to choose ranges)"


@pytest.mark.parametrize(
    ("judgement", "origin"),
    [
        ({"calibrate": 24, "choose": 24, "report": 24}, "24 pictures, each judged by a model calibrated without it:"),
        ({"calibrate": 24, "choose": 24, "report": 24, "is_own_set": True}, "24 pictures not used for calibration:"),
        ({"calibrate": 96, "choose": 24, "report": 24}, "24 pictures not used for calibration:"),
        ({}, "24 pictures not used for calibration:"),
    ],
)
def test_the_verdict_says_what_the_judged_pictures_were_used_for(judgement, origin):
    verdict = {"passed": True, "snr_db": 30.0, "judged_on": 24, "snr_min_db": 18.0, "rule": "the rule"}
    report = {"verdict": verdict, "judgement": judgement}
    assert f"lowest of {origin} 18.0 dB" in next(facts_of_quality(report))


def test_the_verdict_says_that_nothing_was_quantized():
    verdict = {"passed": False, "nothing_quantized": True, "snr_db": 120.0, "rule": "the rule"}
    [fact] = facts_of_quality({"verdict": verdict})
    assert fact.startswith("verdict: NOT passed, for nothing was quantized (worst output 120.0 dB")


def test_quality_is_compared_with_what_was_asked_for():
    def lack(snr_db: float | None, **verdict: object) -> str:
        return lack_of_quality({"stages": {"bie": {"summary": {"snr_db": snr_db}}}}, {"verdict": verdict}, 20)

    assert lack(20.0) == lack(35.5) == ""
    assert lack(19.9) == "the worst output has 19.9 dB, less than the required 20 dB"
    assert "not measured" in lack(None) and "nothing was quantized" in lack(120.0, nothing_quantized=True)


def test_quality_cannot_be_asked_for_without_waiting(monkeypatch, capsys, tmp_path):
    command = ("convert", tmp_path / "m.onnx", tmp_path, "--no-wait", "--min-snr", "20", "--url", NOBODY)
    assert typed(monkeypatch, *command) == Exit.BAD_INPUT
    assert "--min-snr needs the result" in capsys.readouterr().err


def test_a_silent_output_has_a_dash_for_its_missing_snr(capsys):
    output = {"name": "[bold]", "snr_db": {"mean": None, "min": None, "p5": None, "n": 0}, "cosine": {}}
    Console(width=200).print(quality_table({"quality": {"outputs": [output]}}))
    printed = capsys.readouterr().out
    assert "[bold]" in printed
    assert "–" in printed


def test_ages_are_told_in_the_largest_unit():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    ages = [timedelta(seconds=5), timedelta(minutes=3), timedelta(hours=5), timedelta(days=9), timedelta(seconds=-3)]
    assert [age((now - one).isoformat(), now) for one in ages] == ["5 s", "3 min", "5 h", "9 d", "0 s"]


def test_facts_are_printed_readably():
    facts = {"kind": "onnx", "is_ok": True, "operators": {"Conv": 2}, "inputs": [{"name": "x", "shape": [1, 2]}]}
    assert list(plain(facts)) == [
        "kind: onnx",
        "is_ok: yes",
        "operators: Conv 2",
        "inputs:",
        "  name x, shape [1, 2]",
    ]
