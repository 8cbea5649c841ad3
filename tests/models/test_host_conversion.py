"""The host toolchain on real models. They are not part of the repository, so without them these tests skip."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from app.conversion.errors import DynamicShape
from app.conversion.model import Stage
from app.conversion.options import Options
from app.inference.model_card import Format, ModelCard
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from app.inference.runtimes.sessions import HostModel
from tests.harness.models.host import arrays, run_all, run_stage, work_folder
from tests.harness.paths import SHARED_DATA

pytestmark = pytest.mark.skipif(
    not (SHARED_DATA / "models").is_dir(), reason="the real test models are not on this machine"
)

LINZAER = {"scale": 1, "mean": [127], "std": [128]}
BGR = {"color": "BGR", "scale": 1}


@dataclass(frozen=True)
class Case:
    """snr_db: the least the worst output may have on these pictures, well under what was measured."""

    model: str
    snr_db: float
    preprocess: dict[str, Any] = field(default_factory=dict)
    images: str = "face_*.jpg"
    shapes: dict[str, list[int]] = field(default_factory=dict)
    is_slow: bool = True
    is_more: bool = False
    """Goes the way of another one: run by `ops/test --all`."""


CASES = [
    Case("face_rfb_320", 38, LINZAER),
    Case("face_rfb_320_nopost", 16, LINZAER, is_more=True),
    Case("face_yunet_n_320_320", 12, BGR, is_more=True),
    Case("face_yunet_n_dynamic", 12, BGR, shapes={"input": [1, 3, 320, 320]}, is_more=True),
    Case("det_fastestdet_352", 13, {"color": "BGR"}, "street_*.jpg", is_more=True),
    Case("det_yolox_nano_416", 5, BGR | {"resize": "letterbox"}, "street_*.jpg", is_more=True),
    Case("headpose_fsanet_1x1", 10, {"scale": 1, "mean": [127.5], "std": [128]}, is_more=True),
    Case("cls_accelerometer_rank2", 35, images="", is_slow=False),
    Case("cls_mobilenet_v2_128_dynamic_batch", 35, {"scale": 1 / 127.5, "mean": [1]}),
]


def samples_of(case: Case) -> Callable[[Path], None]:
    if not case.images:
        return arrays(40, 1, 39, spread=5.0)

    def copy(folder: Path) -> None:
        for path in sorted((SHARED_DATA / "images").glob(case.images)):
            shutil.copy(path, folder)

    return copy


def marked(case: Case) -> Any:
    marks = [*[pytest.mark.slow] * case.is_slow, *[pytest.mark.exhaustive] * case.is_more]
    return pytest.param(case, id=case.model, marks=marks)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_a_real_model_goes_through_all_stages_with_a_sensible_quality_table(case: Case, tmp_path: Path) -> None:
    folder = work_folder(tmp_path, SHARED_DATA / "models" / f"{case.model}.onnx", samples_of(case))
    options = Options.model_validate(
        {"preprocess": case.preprocess, "input_shapes": case.shapes, "quantization": {"method": "minmax"}}
    )
    reports = {stage: result.report for stage, result in run_all(folder, options).items()}

    equivalence = reports[Stage.ONNX]["equivalence"]
    assert min(output["snr_db"]["min"] for output in equivalence["outputs"]) > 90

    bie = reports[Stage.BIE]
    onnx.checker.check_model(folder / "out.bie")
    assert bie["verdict"]["snr_db"] > case.snr_db
    assert bie["size"]["int8_bytes"] < bie["size"]["float_bytes"] or case.model == "cls_accelerometer_rank2"
    layers = bie["quality"]["layers"]
    weighted = [layer for layer in layers if layer["weight_snr_db"] is not None]
    assert len(weighted) >= 3 and all(25 < layer["weight_snr_db"] < 70 for layer in weighted)
    unheard = ("silent_samples", "not_finite")
    assert all(layer["snr_db"]["n"] > 0 for layer in layers if not any(map(layer.get, unheard)))
    assert bie["quality"]["layers_left_out"] == 0
    task = bie["quality"]["task"]
    assert task is None or task["float_agreement"] is None or task["float_agreement"] > 0.5

    assert reports[Stage.NEF]["agreement"]["bit_true"]
    model = HostModel(folder / "out.nef")
    outputs = model.run({spec["name"]: np.zeros(spec["shape"], spec["dtype"]) for spec in model.inputs})
    assert {name: list(value.shape) for name, value in outputs.items()} == {
        spec["name"]: spec["shape"] for spec in model.outputs
    }


def test_what_holds_the_goal_in_8_bits_at_once_costs_a_single_candidate(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.model == "cls_accelerometer_rank2")
    folder = work_folder(tmp_path, SHARED_DATA / "models" / f"{case.model}.onnx", samples_of(case))
    report = run_all(folder)[Stage.BIE].report
    assert report["goal"]["is_reached"] and report["judgement"]["mean_db"] > 20
    assert [one["tensors_16"] for one in report["search"]["candidates"]] == [0]


@pytest.mark.parametrize("resize", [pytest.param("stretch", marks=pytest.mark.exhaustive), "letterbox"])
def test_boxes_are_held_against_labels_in_pixels_of_the_pictures(tmp_path: Path, resize: str) -> None:
    """The labels are what a node says of the pictures with the float model, so that one is right and int8 nearly is."""
    name, preprocess = "face_yunet_n_320_320", {"color": "BGR", "scale": 1, "resize": resize}
    path = SHARED_DATA / "models" / f"{name}.onnx"
    folder = work_folder(tmp_path, path, samples_of(Case(name, 0)))
    card = ModelCard(name, Format.ONNX, "", path.stat().st_size, preprocess=preprocess)
    predictor = open_predictor(card, path, None, PredictorOptions(score_threshold=0.5, nms_threshold=0.45))
    coco: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": [], "categories": [{"id": 1}]}
    for picture in sorted((folder / "ref_images").iterdir()):
        pixels = np.asarray(Image.open(picture).convert("RGB"))
        size = {"width": pixels.shape[1], "height": pixels.shape[0]}
        coco["images"].append({"id": picture.name, "file_name": picture.name, **size})
        for box in predictor.predict(pixels).boxes:
            bbox = [box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1]
            coco["annotations"].append({"image_id": picture.name, "category_id": 1, "bbox": bbox})
    (folder / "ref_images" / "labels.json").write_text(json.dumps(coco))
    options = Options.model_validate({"preprocess": preprocess, "quantization": {"method": "minmax"}})
    run_stage(Stage.ONNX, folder, options)
    rows = {row["metric"]: row for row in run_stage(Stage.BIE, folder, options).report["labels"]}
    assert len(coco["annotations"]) > 15
    assert rows["mAP@.5"]["n"] == len(coco["images"]) and not rows["mAP@.5"]["are_unseen"]
    assert rows["mAP@.5:.95"]["float"] > 0.98, "but for what the optimizer of the graph rounds"
    assert rows["mAP@.5"]["int8"] > 0.9
    assert 0.5 < rows["mAP@.5:.95"]["int8"] < rows["mAP@.5:.95"]["float"]


def test_a_dynamic_model_without_shapes_is_refused_with_an_example(tmp_path: Path) -> None:
    case = CASES[3]
    folder = work_folder(tmp_path, SHARED_DATA / "models" / f"{case.model}.onnx", samples_of(case))
    with pytest.raises(DynamicShape) as caught:
        run_stage(Stage.ONNX, folder)
    assert "input_shapes" in caught.value.hint
