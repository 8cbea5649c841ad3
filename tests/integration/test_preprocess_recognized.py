"""A conversion that names no preprocessing takes the one that is recognized, and says so everywhere."""

from __future__ import annotations

import httpx
import numpy as np
import onnx
from onnx import helper, numpy_helper

from app.conversion.service.predictions import prediction_of
from tests.harness.api import Api, pngs
from tests.harness.models import small

PLAIN = {"quantization": {"method": "minmax"}}  # without a search, which has no part in this and takes most of the time
SHIFT127 = {"color": "RGB", "resize": "stretch", "pad_value": 114, "scale": 1.0, "mean": [127.0], "std": [128.0]}


def ultraface() -> bytes:
    """By its outputs one of the family that takes (x - 127) / 128: 4420 boxes for 320 × 240 pixels."""
    weight = numpy_helper.from_array(np.full((6, 3, 8, 8), 0.01, np.float32), "w")
    rows = numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.1, (48, 4420)).astype(np.float32), "m")
    shape = numpy_helper.from_array(np.array([1, 6, 48], np.int64), "shape")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", strides=[40, 40]),
        helper.make_node("Reshape", ["c", "shape"], ["flat"], name="flat"),
        helper.make_node("MatMul", ["flat", "m"], ["columns"], name="rows"),
        helper.make_node("Transpose", ["columns"], ["all"], name="turn", perm=[0, 2, 1]),
        helper.make_node("Split", ["all", "sizes"], ["scores", "boxes"], name="split", axis=2),
    ]
    sizes = numpy_helper.from_array(np.array([2, 4], np.int64), "sizes")
    outputs = [small.value("scores", [1, 4420, 2]), small.value("boxes", [1, 4420, 4])]
    model = small.model(nodes, [small.value("x", [1, 3, 240, 320])], outputs, [weight, rows, shape, sizes])
    onnx.checker.check_model(model)
    return model.SerializeToString()


def test_it_is_taken_and_said_in_the_record_and_the_log(api: Api) -> None:
    job = api.convert(ultraface(), pngs(4), options=PLAIN)
    assert job["status"] == "COMPLETED", job["error"]
    assert job["options"]["preprocess"] == SHIFT127
    assert job["intake"]["recognition"]["is_taken"] is True
    log = api.http.get(f"/jobs/{job['job_id']}/logs/onnx").text
    assert log.startswith("preprocessing, as recognized: RGB, (x − 127) / 128. It looks like Ultra-Light")
    again = api.http.get(f"/jobs/{job['job_id']}/actions").json()
    assert "preprocess" not in {action["code"] for action in again["actions"]}


def test_what_is_named_overrules_it_and_is_advised_against(api: Api) -> None:
    job = api.convert(ultraface(), pngs(4), options={**PLAIN, "preprocess": {"color": "BGR"}})
    assert job["options"]["preprocess"]["color"] == "BGR"
    assert job["intake"]["recognition"]["is_taken"] is False
    first = api.http.get(f"/jobs/{job['job_id']}/actions").json()["actions"][0]
    assert first["code"] == "preprocess"
    assert first["options_patch"] == {"preprocess": SHIFT127}


def test_the_form_selects_it_with_the_model_and_not_again(page: httpx.Client, api: Api) -> None:
    stored = {**api.upload(ultraface(), pngs(4)), "model_name": "faces.onnx"}
    options = page.post("/ui/jobs/new/options", data=stored).text
    assert 'name="preprocess.mean" value="127"' in options
    assert f'name="pre_for" value="{stored["model_key"]}"' in options
    assert "Applied" in page.post("/ui/jobs/new/model", data=stored).text
    changed = {**stored, "pre_for": stored["model_key"], "pre": "signed", "pre_was": "shift127"}
    assert 'name="preprocess.mean" value="1"' in page.post("/ui/jobs/new/options", data=changed).text


def test_a_form_without_javascript_takes_it_too(page: httpx.Client, api: Api) -> None:
    files = [("model", ("faces.onnx", ultraface())), *(("images", picture) for picture in pngs(4))]
    sent = page.post("/ui/jobs/new", data={"quantization.goal": "none", "quantization.method": "minmax"}, files=files)
    assert sent.status_code == 303
    assert api.job(sent.headers["location"].rpartition("/")[2])["options"]["preprocess"] == SHIFT127


def test_a_promise_is_kept_with_the_job_that_applies_it() -> None:
    assert prediction_of("candidate", "job", 21.456) == {"code": "candidate", "job_id": "job", "snr_db": 21.46}
    assert prediction_of("more_samples", "job", None) == {}
