"""`modelmill joint` before anything is asked: what it says, what it refuses, and its exit codes."""

from __future__ import annotations

import httpx
import pytest

from app.cli import joint_operator
from app.joint_inference.cli import sedna_models
from app.joint_inference.cli.services import split_full_name
from app.joint_inference.client import JointClient
from app.joint_inference.sedna import SednaModel
from app.kit.cli.command import Exit
from app.kit.errors import BadInput, BadRequest
from tests.harness.command_line import typed_in

typed = typed_in("joint")
NOBODY = "http://127.0.0.1:1"


def test_a_folder_is_no_file(monkeypatch, tmp_path):
    assert typed(monkeypatch, "apply", "-f", tmp_path, "--url", NOBODY) == Exit.BAD_INPUT


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: [1\n", "\x00"])
def test_what_holds_no_service_is_refused_before_anything_is_asked(monkeypatch, tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    assert typed(monkeypatch, "apply", "-f", tmp_path / "s.yaml", "--url", NOBODY) == Exit.BAD_INPUT


@pytest.mark.parametrize("name", ["", "a/b/c", "a/"])
def test_a_name_is_a_namespace_and_a_name(name):
    with pytest.raises(BadRequest):
        split_full_name(name)


def test_the_namespace_may_be_left_out():
    assert (split_full_name("helmet"), split_full_name("shop/helmet")) == (("default", "helmet"), ("shop", "helmet"))


def test_samples_of_this_machine_and_of_the_data_home_exclude_each_other(monkeypatch, capsys):
    flags = ("--folder", "datasets/door", "--samples", "door.zip")
    assert typed(monkeypatch, "calibrate", "helmet", *flags, "--url", NOBODY) == Exit.BAD_INPUT
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--at", NOBODY, "--camera"), "--at and --camera exclude each other"),
        (("--camera", "--edge-model", "a.onnx"), "--edge-model and --cloud-model are given together"),
        (("--edge-model", "a.onnx", "--cloud-model", "b.onnx"), "and with --camera"),
    ],
)
def test_flags_of_the_demonstration_that_contradict_each_other_are_named(monkeypatch, capsys, flags, words):
    assert typed(monkeypatch, "demo", *flags) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err


def test_a_calibration_that_failed_is_told_with_its_reason(monkeypatch, capsys):
    record = {
        "calibration_id": "c1",
        "state": "FAILED",
        "samples": 0,
        "links": {"page": "/ui/calibrations/c1"},
        "error": {"message": "There are no pictures."},
    }
    monkeypatch.setattr(JointClient, "calibrate", lambda *_: record)
    assert typed(monkeypatch, "calibrate", "helmet", "--url", NOBODY) == Exit.FAILED
    assert "There are no pictures." in capsys.readouterr().out


@pytest.mark.parametrize(("cause", "words"), [("", "no reason was given"), ("reset by peer\nagain", "reset by peer")])
def test_a_model_of_sedna_whose_download_breaks_off_is_named_with_the_cause(monkeypatch, tmp_path, cause, words):
    def break_off(*_, **__):
        raise httpx.ReadError(cause)

    monkeypatch.setattr(httpx, "stream", break_off)
    with pytest.raises(BadInput) as refused:
        sedna_models._download(SednaModel("big", "http://127.0.0.1:1/m.onnx", "onnx"), tmp_path / "m.onnx")
    assert refused.value.message == f"The file of the model big cannot be fetched: {words}"


def test_ctrl_c_ends_the_watch_of_a_service(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(JointClient, "service", interrupt)
    assert typed(monkeypatch, "show", "helmet", "--watch", "--url", NOBODY) == Exit.CANCELLED
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("where", [[], ["-A", "-n", "default"]])
def test_the_operator_must_know_where_to_look(monkeypatch, capsys, where):
    assert typed(monkeypatch, "operator", "--user", "alice", *where) == Exit.BAD_INPUT
    assert "--all-namespaces" in capsys.readouterr().err


def test_without_kopf_the_operator_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(joint_operator.importlib.util, "find_spec", lambda name: None)
    assert typed(monkeypatch, "operator", "--user", "alice", "-A") == Exit.BAD_INPUT
    assert "modelmill[k8s]" in capsys.readouterr().err
