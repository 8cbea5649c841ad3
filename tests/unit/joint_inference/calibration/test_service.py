"""Calibration: the sweep over answers, the sets of samples that users bring, and the actor's run of both models."""

from __future__ import annotations

import copy
import dataclasses
import io
import itertools
import json
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from app.bootstrap.container import Container
from app.conversion.errors import SamplesTooLarge
from app.inference.agreement import iou, matches
from app.inference.prediction import Box, Prediction
from app.joint_inference.calibration import samples as sample_sets
from app.joint_inference.calibration.labels import ModelClasses
from app.joint_inference.calibration.model import LOST_AFTER, Calibration, State
from app.joint_inference.calibration.predictions import GroundTruth, SamplePredictions
from app.joint_inference.calibration.quality import Kind, measure, ratio
from app.joint_inference.calibration.samples import MAX_SAMPLES, read_labels, read_samples
from app.joint_inference.calibration.service import MOST_OPEN, Calibrations, calibrations_using
from app.joint_inference.calibration.sweep import SWEEP, Setting, Sweep, best_within, pareto, split_samples, sweep
from app.joint_inference.errors import BadSamples, CalibrationNotFound, NotReady, ServiceNotFound
from app.joint_inference.hard_examples import load_algorithms, make
from app.joint_inference.model.coco import CocoDataset
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.service.collection import HardSampleCollection
from app.kit.clock import now
from app.kit.errors import ModelmillError, TooMany
from app.kit.objects.blobs import blob_key
from app.model_registry.errors import ModelInUse
from app.model_registry.model import ModelUse, Usage

NAMES = list(load_algorithms())
USER = "alice"


def classified(*probabilities: float) -> Prediction:
    return Prediction(probabilities=probabilities)


def seen(*boxes: Box) -> Prediction:
    return Prediction(boxes=tuple(b for b in boxes if b.score >= 0.6), candidates=boxes)


def box(x: float, score: float = 0.9, label: int = 0) -> Box:
    return Box(x, 0, x + 10, 10, score, label)


@pytest.fixture(scope="module")
def digits(shared_data: Path) -> list[SamplePredictions]:
    """The small and the big model of the digits on all 899 labelled pictures."""
    data = np.load(shared_data / "images/digits_test.npz")
    labels = {}
    for name in ("digits_small", "digits_big"):
        session = onnxruntime.InferenceSession(shared_data / f"models/{name}.onnx", providers=["CPUExecutionProvider"])
        (labels[name],) = session.run(None, {session.get_inputs()[0].name: data["x"]})
    return [
        SamplePredictions(str(n), classified(*map(float, small)), classified(*map(float, big)), GroundTruth(int(label)))
        for n, (small, big, label) in enumerate(
            zip(labels["digits_small"], labels["digits_big"], data["y"], strict=True)
        )
    ]


@pytest.fixture(scope="module")
def digits_sweep(digits: list[SamplePredictions]) -> Sweep:
    return sweep(digits, make, NAMES)


# --- the sweep


def of(swept: Sweep, algorithm: str, **parameters: str) -> Setting:
    return next(s for s in swept.settings if s.algorithm == algorithm and parameters.items() <= s.parameters.items())


@pytest.mark.slow
def test_the_digits_are_as_good_as_was_measured(digits_sweep: Sweep) -> None:
    """The measured numbers are of all samples: of both halves together."""
    assert (digits_sweep.kind, digits_sweep.samples, digits_sweep.checking) == (Kind.ACCURACY, 899, 449)

    def on_all(setting: Setting) -> tuple[float, float]:
        assert setting.check is not None
        quality = (setting.quality * 450 + setting.check.quality * 449) / 899
        return round(quality, 4), round((setting.upload * 450 + setting.check.upload * 449) / 899, 2)

    half, third = (of(digits_sweep, "CrossEntropy", threshold_cross_entropy=t) for t in ("0.50", "0.30"))
    alone = [of(digits_sweep, name) for name in ("EdgeOnly", "CloudOnly")]
    assert [on_all(setting) for setting in alone] == [(0.8387, 0.0), (0.9733, 1.0)]
    assert [on_all(setting) for setting in (half, third)] == [(0.9700, 0.50), (0.9032, 0.22)]
    assert [digits_sweep.edge_only, digits_sweep.cloud_only] == [setting.quality for setting in alone]
    assert round(digits_sweep.random(0.5), 3) == round(sum(setting.quality for setting in alone) / 2, 3)
    assert all(s.check and s.check.low <= s.check.quality <= s.check.high for s in digits_sweep.settings)


@pytest.mark.slow
def test_the_best_within_a_budget_never_exceeds_it_and_beats_chance(digits_sweep: Sweep) -> None:
    for budget in (0.0, 0.1, 0.22, 0.5, 0.77, 1.0):
        best = best_within(digits_sweep.settings, budget)
        assert best is not None and best.upload <= budget
        assert best.quality >= digits_sweep.random(best.upload) - 1e-9
        assert not any(s.upload <= budget and s.quality > best.quality for s in digits_sweep.settings)


@pytest.mark.slow
def test_the_front_rises_and_nothing_lies_above_it(digits_sweep: Sweep) -> None:
    front = pareto(digits_sweep.settings)
    assert all(a.upload < b.upload and a.quality < b.quality for a, b in itertools.pairwise(front))
    for setting in digits_sweep.settings:
        assert any(f.upload <= setting.upload and f.quality >= setting.quality for f in front)


def test_settings_are_checked_on_samples_that_had_no_part_in_the_choice() -> None:
    """One half has answers of the big model that are right, the other wrong ones."""
    choosing, checking = split_samples(100)
    assert sorted([*choosing, *checking]) == list(range(100)) and len(choosing) == len(checking) == 50
    answers = [
        SamplePredictions(
            str(n),
            Prediction(probabilities=(0.6, 0.4)),
            Prediction(probabilities=(0.2, 0.8)),
            GroundTruth(label=1 if n in choosing or n == checking[0] else 0),
        )
        for n in range(100)
    ]
    swept = sweep(answers, make, ["CloudOnly"])
    (setting,) = swept.settings
    assert (swept.samples, swept.checking, swept.cloud_only, setting.quality) == (100, 50, 1.0, 1.0)
    assert setting.check is not None and (setting.check.upload, setting.check.quality) == (1.0, 0.02)
    assert setting.check.low == 0.0 and 0.02 < setting.check.high < 0.2
    few = sweep(answers[:39], make, ["CloudOnly"])
    assert few.checking == 0 and few.settings[0].check is None


def test_of_equally_good_settings_the_thriftiest_is_the_best() -> None:
    same = [Setting("A", {}, 0.4, 0.9), Setting("B", {}, 0.2, 0.9), Setting("C", {}, 0.1, 0.8)]
    best = best_within(same, 0.5)
    assert best is not None and best.algorithm == "B"
    assert best_within(same, 0.05) is None


def test_a_sweep_survives_being_stored(digits: list[SamplePredictions]) -> None:
    swept = sweep(digits[:40], make, NAMES)
    assert SWEEP.read(json.loads(json.dumps(SWEEP.write(swept)))) == swept


def test_an_answer_keeps_its_candidates_when_it_is_stored() -> None:
    answer = SamplePredictions("a", seen(box(0), box(50, 0.3)), seen(box(1)), GroundTruth(boxes=(box(0),)))
    again = SamplePredictions.from_json(json.loads(json.dumps(answer.to_json())))
    assert again == answer and len(again.edge.candidates) == 2 and len(again.edge.boxes) == 1


def test_without_samples_nothing_is_swept() -> None:
    with pytest.raises(ValueError, match="no sample"):
        sweep([], make, NAMES)


# --- quality


def test_a_box_is_right_once_and_only_of_its_own_class() -> None:
    assert iou(box(0), box(5)) == pytest.approx(1 / 3) and iou(box(0), box(20)) == 0
    assert matches([box(0), box(1, 0.8)], [box(0)]) == 1  # the second finds nothing left
    assert matches([box(0, label=1)], [box(0)]) == 0
    assert matches([box(6)], [box(0)]) == 0  # IoU .25


def test_f1_counts_what_is_missed_and_what_is_not_there() -> None:
    answers = [
        SamplePredictions("both", seen(box(0)), seen(box(0), box(50)), GroundTruth(boxes=(box(0), box(50)))),
        SamplePredictions("nothing", seen(), seen(box(90)), GroundTruth(boxes=())),
    ]
    measured = measure(answers)
    assert measured.kind is Kind.F1
    assert ratio(measured.edge) == pytest.approx(2 / 3) and ratio(measured.cloud) == pytest.approx(4 / 5)


def test_without_truth_the_big_model_is_what_the_small_one_is_held_against() -> None:
    boxes = measure([SamplePredictions("a", seen(box(0)), seen(box(0), box(50)))])
    labels = measure(
        [
            SamplePredictions("a", classified(0.9, 0.1), classified(0.2, 0.8)),
            SamplePredictions("b", *[classified(1, 0)] * 2),
        ]
    )
    assert boxes.kind is Kind.BOX_AGREEMENT and ratio(boxes.cloud) == 1 and ratio(boxes.edge) == pytest.approx(2 / 3)
    assert labels.kind is Kind.LABEL_AGREEMENT and (ratio(labels.edge), ratio(labels.cloud)) == (0.5, 1.0)


def test_a_truth_that_some_samples_lack_is_no_measure() -> None:
    answers = [
        SamplePredictions("a", classified(1, 0), classified(1, 0), GroundTruth(0)),
        SamplePredictions("b", *[classified(1, 0)] * 2),
    ]
    assert measure(answers).kind is Kind.LABEL_AGREEMENT


def test_ibt_is_fed_with_candidates_and_not_with_results() -> None:
    """A weak candidate beside a strong result makes the picture hard; among the results alone there is none."""
    answers = [SamplePredictions("weak", seen(box(0), box(50, 0.3)), seen(box(0), box(50)))]
    table = sweep(answers, make, ["IBT"])
    assert of(table, "IBT", threshold_img="0.5", threshold_box="0.5").upload == 1.0
    only_results = [dataclasses.replace(answers[0], edge=seen(box(0)))]
    assert of(sweep(only_results, make, ["IBT"]), "IBT", threshold_img="0.5", threshold_box="0.5").upload == 0.0


# --- sets of samples


def png(side: int = 8, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, "PNG")
    return file.getvalue()


def packed(path: Path, **members: bytes | str) -> Path:
    with zipfile.ZipFile(path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), data)
    return path / "set.zip"


def test_pictures_come_with_what_labels_csv_says(tmp_path: Path) -> None:
    text = "name,class\na.png,cat\nd/b.png,1\nc.png,dog,1,2,3,4\nc.png,0,5,6,7,8\nd.png\n"
    path = packed(tmp_path, a_png=png(), d__b_png=png(mode="L"), c_png=png(), d_png=png(), labels_csv=text)
    by_name = {sample.name: sample for sample in read_samples(path, ["cat", "dog"])}
    assert by_name["a.png"].truth == GroundTruth(0) and by_name["d/b.png"].truth == GroundTruth(1)
    assert by_name["c.png"].truth.boxes == (Box(1, 2, 3, 4, 1.0, 1), Box(5, 6, 7, 8, 1.0, 0))
    assert by_name["d.png"].truth == GroundTruth(boxes=())
    shapes = {name: sample.picture.shape for name, sample in by_name.items() if sample.picture is not None}
    assert shapes["a.png"] == (8, 8, 3) and shapes["d/b.png"] == (8, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png,cow", "know no class 'cow'"),
        ("a.png,0,1,2", "it has 4 columns"),
        ("a.png,0,1,2,3,x", "corners of a box are numbers"),
        ("a.png,0,1,2,3,inf", "corners of a box are numbers"),
        (f"a.png,{'1' * 5000}", "know no class '1111"),
        (f"{'a' * 200_000},1", "cannot be read"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(BadSamples, match="line 2") as caught:
        read_labels(f"b.png,0\n{text}\n", ModelClasses(["cat", "dog"]))
    assert message in caught.value.message


def test_a_damaged_picture_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    path = packed(tmp_path, a_png=png()[:40], b_png=png(), c_jpg=b"no picture at all")
    samples = list(read_samples(path, []))
    assert [sample.picture is None for sample in samples] == [True, False, True]


def test_a_member_that_is_damaged_in_the_zip_is_skipped(tmp_path: Path) -> None:
    path = packed(tmp_path, a_png=png(64), b_png=png(64))
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)  # within the first member
    path.write_bytes(data)
    assert [sample.picture is None for sample in read_samples(path, [])] == [True, False]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no zip", "no zip and no .npz"),
        (b"PK\x03\x04 cut off", "no zip and no .npz"),
    ],
)
def test_what_is_no_set_of_samples_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "set").write_bytes(data)
    with pytest.raises(BadSamples, match=message):
        list(read_samples(tmp_path / "set", []))


def test_a_zip_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSamples, match="no JPEG or PNG"):
        list(read_samples(packed(tmp_path, readme_txt="hello"), []))


def test_no_more_than_the_allowed_number_of_samples_is_taken(tmp_path: Path) -> None:
    members = {f"{n}_png": b"" for n in range(MAX_SAMPLES + 1)}
    with pytest.raises(SamplesTooLarge, match=str(MAX_SAMPLES)):
        list(read_samples(packed(tmp_path, **members), []))
    np.savez(tmp_path / "many.npz", x=np.zeros((MAX_SAMPLES + 1, 1, 2, 2), np.float32))
    with pytest.raises(SamplesTooLarge, match=str(MAX_SAMPLES)):
        list(read_samples(tmp_path / "many.npz", []))


@pytest.mark.parametrize("shape", [(2, 1, 4, 6), (2, 4, 6, 1), (2, 4, 6)])
def test_arrays_of_any_usual_layout_are_pictures(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "set.npz", x=np.full(shape, 0.5, np.float32), y=np.array([3, 4]))
    first, second = read_samples(tmp_path / "set.npz", [])
    assert first.picture is not None and first.picture.shape == (4, 6) and first.picture.max() == 128
    assert (first.truth, second.truth) == (GroundTruth(3), GroundTruth(4))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((2, 4, 4))}, "array x"),
        ({"x": np.zeros(4)}, "array x"),
        ({"x": np.zeros((0, 4, 4))}, "array x"),
        ({"x": np.zeros((2, 4, 4)), "y": np.zeros(3, int)}, "y is not"),
        ({"x": np.zeros((2, 4, 4)), "y": np.zeros(2)}, "y is not"),
        ({"x": np.array([[["a"]]], dtype=object)}, "cannot be read"),
    ],
)
def test_arrays_that_are_no_samples_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(BadSamples, match=message):
        list(read_samples(tmp_path / "set.npz", []))


# --- the run


RESOURCE = {
    "apiVersion": "neptune.io/v1alpha1",
    "kind": "JointInferenceService",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "edgeWorker": {
            "name": "e",
            "model": {"name": "small"},
            "nodeName": "edge0",
            "hardExampleAlgorithm": {"name": "IBT", "parameters": [{"key": "threshold_box", "value": "0.7"}]},
            "workerSpec": {
                "scriptDir": "",
                "scriptBootFile": "",
                "frameworkType": "onnxruntime",
                "frameworkVersion": "",
                "parameters": [{"key": "source", "value": "clip.mp4"}],
            },
        },
        "cloudWorker": {
            "name": "c",
            "model": {"name": "big"},
            "nodeName": "cloud0",
            "workerSpec": {
                "scriptDir": "",
                "scriptBootFile": "",
                "frameworkType": "onnxruntime",
                "frameworkVersion": "",
                "parameters": [],
            },
        },
    },
}


@pytest.fixture
def calibrations(container: Container, shared_data: Path) -> Calibrations:
    """Of a service for digits, whose models are there; nothing takes from its queue."""
    container.prepare()
    for name, file in (("small", "digits_small"), ("big", "digits_big")):
        chunks = [(shared_data / f"models/{file}.onnx").read_bytes()]
        container.models.add_upload(USER, name, chunks, now=now())
    container.joint.services.create(USER, RESOURCE, now=now())
    return container.calibrations


def asked(calibrations: Calibrations, path: Path) -> Calibration:
    return calibrations.ask(USER, "default", "digits", path, path.name, now=now())


@pytest.fixture
def digits_set(shared_data: Path) -> Path:
    return shared_data / "images/digits_test.npz"


@pytest.mark.slow
def test_both_models_answer_and_the_best_setting_goes_into_the_service(
    calibrations: Calibrations, digits_set: Path, container: Container
) -> None:
    made = asked(calibrations, digits_set)
    assert made.state is State.WAITING and container.broker.holds  # it lies in the queue until an actor comes
    calibrations.run(made.calibration_id, now=now())
    ended = calibrations.get(USER, made.calibration_id)
    assert (ended.state, ended.progress) == (State.READY, 100), ended.error
    swept = calibrations.sweep(USER, made.calibration_id)
    assert swept.samples == 899 and swept.kind is Kind.ACCURACY and swept.cloud_only > 0.96
    best = best_within(swept.settings, 0.5)
    assert best is not None and best.quality > 0.96
    calibrations.apply(USER, made.calibration_id, best, now=now())
    specification = container.joint.services.get(USER, "default", "digits").specification
    assert (
        specification.hard_example == best.algorithm
        and best.parameters.items() <= specification.hard_example_parameters.items()
    )
    assert specification.edge.parameters == {"source": "clip.mp4"}  # all else stays
    kept = json.loads(b"".join(calibrations.objects.read(f"calibrations/{made.calibration_id}/answers.json")))
    assert len(kept["answers"]) == 899
    assert not list(calibrations.objects.list(f"calibrations/{made.calibration_id}/samples"))


@pytest.mark.slow
def test_samples_that_cannot_be_read_are_counted(calibrations: Calibrations, tmp_path: Path) -> None:
    made = asked(calibrations, packed(tmp_path, a_png=png(mode="L"), b_png=b"damaged", c_png=png(mode="L")))
    calibrations.run(made.calibration_id, now=now())
    swept = calibrations.sweep(USER, made.calibration_id)
    assert (swept.samples, swept.skipped, swept.kind) == (2, 1, Kind.LABEL_AGREEMENT)


class HomeInMemory:
    """Files of one home."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def check(self, folder: str) -> None:
        pass

    def read(self, owner: str, path: str) -> bytes:
        return self.files.get(path, b"") if owner == USER else b""

    def list_files(self, owner: str, folder: str) -> list[str]:
        return [path for path in self.files if path.startswith(f"{folder}/")] if owner == USER else []

    def write(self, owner: str, path: str, content: bytes) -> None:
        raise AssertionError("a calibration reads")


def collected() -> bytes:
    """Annotations of two pictures."""
    dataset = CocoDataset.read(b"")
    for number in range(2):
        answer = Prediction(probabilities=(0.1, 0.9))
        sample = Sample(str(number), "", 8, 8, "", 0.5, Source.CLOUD, answer, answer)
        dataset.add(f"images/{number}.png", sample, (8, 8), "")
    return dataset.write()


@pytest.mark.slow
def test_hard_samples_that_were_kept_calibrate_with_their_annotations(calibrations: Calibrations) -> None:
    files = {"datasets/hard/images/0.png": png(mode="L"), "datasets/hard/annotations.json": collected()}
    calibrations.collection = HardSampleCollection(HomeInMemory(files))
    made = calibrations.ask_of_collected(USER, "default", "digits", "datasets/hard", now=now())
    calibrations.run(made.calibration_id, now=now())
    assert (made.request.set_name, calibrations.get(USER, made.calibration_id).state) == ("datasets/hard", State.READY)
    swept = calibrations.sweep(USER, made.calibration_id)
    assert (swept.samples, swept.skipped, swept.kind) == (1, 0, Kind.ACCURACY), "the class of its annotation is true"


def test_a_folder_of_the_data_home_without_annotations_goes_with_its_labels(tmp_path: Path) -> None:
    label, other = "0 0.5 0.5 0.5 0.5", "night/clip.mp4"
    files = {"images/a.png": png(), "images/b.png": png(), "labels/a.txt": label.encode(), other: b"no picture"}
    home = HomeInMemory({f"datasets/yard/{name}": content for name, content in files.items()})
    HardSampleCollection(home).pack(USER, "datasets/yard", tmp_path / "set.zip", most_bytes=1 << 20)
    truths = {sample.name: sample.truth.boxes for sample in read_samples(tmp_path / "set.zip", [])}
    assert truths == {"images/a.png": (Box(2, 2, 6, 6, 1.0, 0),), "images/b.png": ()}
    with pytest.raises(BadSamples, match="no pictures in datasets/night"):
        HardSampleCollection(home).pack(USER, "datasets/night", tmp_path / "set.zip", most_bytes=1 << 20)
    with pytest.raises(BadSamples, match="more than 0 MiB"):
        HardSampleCollection(home).pack(USER, "datasets/yard", tmp_path / "set.zip", most_bytes=100)


def test_a_calibration_can_be_what_drift_is_measured_against(
    calibrations: Calibrations, container: Container, digits_set: Path, tmp_path: Path
) -> None:
    arrays = np.load(digits_set)
    np.savez(tmp_path / "few.npz", x=arrays["x"][:150])
    made = asked(calibrations, tmp_path / "few.npz")
    with pytest.raises(NotReady):
        container.drift.watch_calibration(USER, "default", "digits", made.calibration_id, 0.25, now=now())
    calibrations.run(made.calibration_id, now=now())
    drift = container.drift.watch_calibration(USER, "default", "digits", made.calibration_id, 0.25, now=now())
    assert (drift.reference.calibration_id, drift.reference.distribution.objects) == (made.calibration_id, 150)
    assert container.drift.get(USER, "default", "digits") == drift


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("", "keeps no hard samples"), ("datasets/none", "no pictures in"), ("datasets/odd", "not in COCO")],
)
def test_without_kept_samples_no_calibration_begins(calibrations: Calibrations, folder: str, reason: str) -> None:
    calibrations.collection = HardSampleCollection(HomeInMemory({"datasets/odd/annotations.json": b"[]"}))
    with pytest.raises(BadSamples, match=reason):
        calibrations.ask_of_collected(USER, "default", "digits", folder, now=now())
    assert not calibrations.of_service(USER, "default", "digits")


def failed(calibrations: Calibrations, path: Path) -> dict[str, Any]:
    made = asked(calibrations, path)
    calibrations.run(made.calibration_id, now=now())
    ended = calibrations.get(USER, made.calibration_id)
    assert ended.state is State.FAILED
    with pytest.raises(NotReady):
        calibrations.sweep(USER, made.calibration_id)
    return dict(ended.error)


def test_a_set_in_which_nothing_can_be_read_fails_with_its_reason(calibrations: Calibrations, tmp_path: Path) -> None:
    error = failed(calibrations, packed(tmp_path, a_png=b"damaged", b_png=b"damaged"))
    assert error["code"] == "BAD_SAMPLES" and "None of the 2 samples" in error["message"]


def test_a_model_that_is_gone_fails_with_its_name(
    calibrations: Calibrations, digits_set: Path, container: Container
) -> None:
    container.models.storage.remove(USER, "big")  # as by a version that let those go that are used
    assert "no model 'big'" in failed(calibrations, digits_set)["message"]


def test_a_service_that_is_gone_fails_the_calibration(
    calibrations: Calibrations, digits_set: Path, container: Container
) -> None:
    made = asked(calibrations, digits_set)
    uid = container.joint.services.delete(USER, "default", "digits", now=now()).uid
    container.joint.controller.reconcile(uid, now=now())
    calibrations.run(made.calibration_id, now=now())
    assert calibrations.get(USER, made.calibration_id).error["code"] == "SERVICE_NOT_FOUND"


def test_what_breaks_in_the_actor_is_a_failure_and_no_endless_wait(
    calibrations: Calibrations, digits_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.joint_inference.calibration.service.RUN", "app.nowhere:run")
    assert failed(calibrations, digits_set)["code"]


def test_one_that_has_ended_is_not_run_again(calibrations: Calibrations, tmp_path: Path) -> None:
    made = asked(calibrations, packed(tmp_path, a_png=b"damaged"))
    calibrations.run(made.calibration_id, now=now())
    calibrations.run(made.calibration_id, now=now())
    assert calibrations.get(USER, made.calibration_id).state is State.FAILED


def test_an_empty_upload_and_an_unknown_service_are_refused_at_once(calibrations: Calibrations, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(BadSamples, match="No samples"):
        asked(calibrations, tmp_path / "empty")
    with pytest.raises(ServiceNotFound):
        calibrations.ask(USER, "default", "other", tmp_path / "empty", "x", now=now())


def test_without_redis_nothing_is_left_behind(calibrations: Calibrations, digits_set: Path) -> None:
    def start(_: str) -> None:
        raise ModelmillError("Redis does not answer.")

    calibrations.start = start
    with pytest.raises(ModelmillError):
        asked(calibrations, digits_set)
    assert not calibrations.of_service(USER, "default", "digits") and not list(
        calibrations.objects.list("calibrations/")
    )


def test_anothers_calibration_does_not_exist(calibrations: Calibrations, digits_set: Path) -> None:
    made = asked(calibrations, digits_set)
    with pytest.raises(CalibrationNotFound):
        calibrations.get("mallory", made.calibration_id)
    assert not calibrations.of_service("mallory", "default", "digits")


def test_a_model_of_a_calibration_under_way_cannot_be_removed(
    calibrations: Calibrations, tmp_path: Path, container: Container
) -> None:
    made = asked(calibrations, packed(tmp_path, a_png=b"damaged"))
    chunks = [b"".join(container.objects.read(blob_key(container.models.get(USER, "small").card.sha256)))]
    container.models.add_upload(USER, "other", chunks, now=now())
    spec = copy.deepcopy(RESOURCE["spec"])
    for worker in spec.values():
        worker["model"]["name"] = "other"
    container.joint.services.merge(USER, "default", "digits", {"spec": spec}, now=now())
    for name in ("small", "big"):
        with pytest.raises(ModelInUse, match="calibration of default/digits"):
            container.models.remove(USER, name)
    calibrations.run(made.calibration_id, now=now())
    container.models.remove(USER, "small")


def test_a_calibration_that_was_lost_holds_no_model(
    calibrations: Calibrations, tmp_path: Path, container: Container
) -> None:
    asked(calibrations, packed(tmp_path, a_png=b"damaged"))
    with container.database.read() as conn:
        use, bobs = (ModelUse(user, frozenset({"small"})) for user in (USER, "bob"))
        assert calibrations_using(conn, use, now=now()) == [Usage("calibration", "default/digits", USER)]
        assert calibrations_using(conn, bobs, now=now()) == []
        assert calibrations_using(conn, use, now=now() + LOST_AFTER + timedelta(seconds=1)) == []


def test_nobody_may_have_many_under_way(calibrations: Calibrations, tmp_path: Path) -> None:
    path = packed(tmp_path, a_png=b"damaged")
    made = [asked(calibrations, path) for _ in range(MOST_OPEN)]
    with pytest.raises(TooMany):
        asked(calibrations, path)
    calibrations.run(made[0].calibration_id, now=now())
    assert asked(calibrations, path)


def test_only_the_newest_are_kept(calibrations: Calibrations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.joint_inference.calibration.service.KEPT", 2)
    path = packed(tmp_path, a_png=b"damaged")
    first = asked(calibrations, path)
    calibrations.run(first.calibration_id, now=now())
    for _ in range(2):
        asked(calibrations, path)
    assert len(calibrations.of_service(USER, "default", "digits")) == 2
    assert not list(calibrations.objects.list(f"calibrations/{first.calibration_id}/"))


def test_one_whose_worker_never_came_back_is_lost_after_a_while(calibrations: Calibrations, digits_set: Path) -> None:
    made = asked(calibrations, digits_set)
    assert not made.is_lost(now()) and made.is_lost(now() + LOST_AFTER + timedelta(seconds=1))


def test_a_picture_above_the_limit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_sets, "MAX_PICTURE_BYTES", 20)
    assert [sample.picture for sample in read_samples(packed(tmp_path, a_png=png()), [])] == [None]
