"""The page of a new conversion as browsers use it, with and without JavaScript."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from uuid import uuid4

import httpx
import numpy as np
import onnx
import pytest
from PIL import Image

from tests.harness.api import Api, Named, has_ended, npy, png, pngs, small_model, store_of, two_input_model, zipped
from tests.harness.deployment import Deployment, submit_pending
from tests.harness.models import small as small_models

NEW = "/ui/jobs/new"
PNGS = pngs(4)


def submit(page: httpx.Client, model: bytes | None = None, images: Named = (), **fields: str) -> httpx.Response:
    """As a form without JavaScript does; a file input that was left alone is sent without a name."""
    files = [("model", ("my model.onnx", model) if model is not None else ("", b""))]
    files += [("images", file) for file in images] or [("images", ("", b""))]
    return page.post(NEW, data=fields, files=files)


def job_of(answer: httpx.Response) -> str:
    assert answer.status_code == 303, said(answer)
    return answer.headers["location"].removeprefix("/ui/jobs/")


def said(answer: httpx.Response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


def value_of(answer: httpx.Response, name: str) -> str:
    match = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', answer.text)
    assert match, f"no field {name}"
    return match[1]


def part_of(answer: httpx.Response, start: str) -> str:
    return answer.text[answer.text.index(start) :][:3000]


def dynamic_model() -> bytes:
    return small_models.conv((None, 3, "h", "w")).SerializeToString()


def test_the_empty_page_offers_what_is_installed(page: httpx.Client) -> None:
    answer = page.get(NEW)
    assert answer.status_code == 200
    assert "Choose the model: .onnx, .tflite or .pt2" in said(answer)
    assert "not for a Kneron chip" in said(answer)
    assert value_of(answer, "toolchain") == "host"
    assert "kneron.model_id" not in answer.text


def test_nothing_in_the_page_breaks_the_content_security_policy(page: httpx.Client) -> None:
    html = page.get(NEW).text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|hx-on|javascript:", html)


def test_a_plain_form_with_files_becomes_a_converted_job(page: httpx.Client, api: Api) -> None:
    job_id = job_of(submit(page, small_model(), PNGS, name="plain", tags="a, b", preset="balanced", preset_was="fast"))
    job = api.wait(job_id, has_ended)
    assert job["status"] == "COMPLETED", job["error"]
    assert (job["name"], job["tags"]) == ("plain", ["a", "b"])
    assert job["options"]["quantization"]["method"] == "percentile"


def test_a_zip_does_as_well_as_single_pictures(page: httpx.Client, api: Api) -> None:
    job_id = job_of(submit(page, small_model(), [("all.zip", zipped(PNGS))], name="zip"))
    assert api.wait(job_id, has_ended)["status"] == "COMPLETED"


def test_a_form_without_files_says_so_beside_each(page: httpx.Client) -> None:
    answer = submit(page)
    assert answer.status_code == 422
    assert "Choose a model." in part_of(answer, 'id="new-model"')
    assert "Choose reference pictures." in part_of(answer, 'id="new-images"')


def test_a_file_that_is_no_model_is_told_beside_it_and_the_pictures_are_kept(page: httpx.Client, api: Api) -> None:
    answer = submit(page, b"<html>not found</html>", PNGS)
    assert answer.status_code == 422
    assert "HTML" in part_of(answer, 'id="new-model"')
    again = submit(page, small_model(), quant_key=value_of(answer, "quant_key"))
    assert api.wait(job_of(again), has_ended)["status"] == "COMPLETED"


def test_a_wrong_number_is_told_beside_its_field_and_both_files_are_kept(page: httpx.Client) -> None:
    answer = submit(page, small_model(), PNGS, **{"preprocess.mean": "about half"})
    assert answer.status_code == 422
    assert "This must be a number." in part_of(answer, 'id="f-mean"')
    keys = {name: value_of(answer, name) for name in ("model_key", "quant_key")}
    assert value_of(answer, "model_name") == "my model.onnx"
    job_of(submit(page, **keys))


def test_options_that_do_not_fit_the_model_are_told_beside_the_preprocessing(page: httpx.Client) -> None:
    answer = submit(page, small_model(), PNGS, pre="custom", pre_was="custom", **{"preprocess.mean": "1, 2"})
    assert answer.status_code == 422
    assert "2 values" in said(answer)[said(answer).index("Preprocessing") :]


def test_pictures_for_a_model_with_two_inputs_are_refused_beside_the_pictures(page: httpx.Client) -> None:
    answer = submit(page, two_input_model(), PNGS)
    assert answer.status_code == 422
    assert "one input" in part_of(answer, 'id="new-images"')


def test_errors_are_told_in_the_reader_s_language(page: httpx.Client) -> None:
    page.headers["Accept-Language"] = "zh-TW"
    answer = submit(page, b"nothing", PNGS)
    assert answer.status_code == 422
    assert "這不是 ONNX 模型" in answer.text


def test_open_axes_are_asked_for_and_then_taken(page: httpx.Client, api: Api) -> None:
    answer = submit(page, dynamic_model(), PNGS)
    assert answer.status_code == 422
    assert value_of(answer, "shape.0.0") == "1"
    assert 'name="shape.0.2"' in answer.text
    assert 'name="shape.0.1"' not in answer.text
    keys = {name: value_of(answer, name) for name in ("model_key", "quant_key")}
    again = submit(page, **keys, **{"shape.0.0": "1", "shape.0.2": "16", "shape.0.3": "16"})
    assert api.wait(job_of(again), has_ended)["status"] == "COMPLETED"


def test_a_job_can_be_opened_again_filled_in_with_its_inputs(page: httpx.Client, api: Api) -> None:
    shape = {"shape.0.0": "1", "shape.0.2": "24", "shape.0.3": "16"}
    job_id = job_of(submit(page, dynamic_model(), PNGS, name="first", pre="shift127", pre_was="unit", **shape))
    api.wait(job_id, has_ended)
    filled = page.get(NEW, params={"from": job_id})
    assert "from job" in said(filled)
    assert value_of(filled, "shape.0.2") == "24"
    assert value_of(filled, "preprocess.std") == "128"
    keys = {name: value_of(filled, name) for name in ("model_key", "quant_key")}
    assert keys["model_key"] == f"jobs/{job_id}/input/model.onnx"
    second = api.wait(job_of(submit(page, **keys, name="second", **shape)), has_ended)
    assert second["status"] == "COMPLETED"
    assert second["options"]["preprocess"]["scale"] == pytest.approx(1 / 255)


def test_a_job_whose_inputs_are_gone_opens_an_empty_form_that_says_so(page: httpx.Client) -> None:
    for earlier in (str(uuid4()), "../../etc/passwd"):
        assert "no longer stored" in said(page.get(NEW, params={"from": earlier}))


def test_another_user_s_files_are_not_there(page: httpx.Client, api: Api, service: Deployment) -> None:
    stored = api.upload(small_model(), PNGS)
    page.post(f"{NEW}/images", data=stored | {"files": ""})
    thumb = f"/ui/inputs/upload/{stored['upload_id']}/thumbs/0.jpg"
    assert page.get(thumb).status_code == 200
    store, about = store_of(service), f"uploads/{stored['upload_id']}/upload.json"
    was = json.loads(b"".join(store.read(about)))
    store.put(about, [json.dumps({**was, "owner": "somebody else"}).encode()])
    keys = {name: stored[name] for name in ("model_key", "quant_key")}
    answer = submit(page, **keys)
    assert answer.status_code == 422
    assert "no longer here" in said(answer)
    assert value_of(answer, "model_key") == ""
    assert "Conv" not in said(page.post(f"{NEW}/model", data=keys))
    assert page.get(thumb).status_code == 404


def test_pictures_get_thumbnails_and_the_doctor_s_opinion(page: httpx.Client, api: Api) -> None:
    stored = api.upload(small_model(), [*PNGS, ("copy.png", PNGS[0][1]), ("broken.png", PNGS[0][1][:40])])
    answer = page.post(f"{NEW}/images", data={"model_key": stored["model_key"], "quant_key": stored["quant_key"]})
    text = said(answer)
    assert "5 samples" in text or "6 samples" in text
    for expected in ("Few samples", "exact copies of others: 1", "cannot be read: 1", "Leave damaged pictures out"):
        assert expected in text
    links = re.findall(r'href="(/ui/inputs/[^"]+)"', answer.text)
    assert len(links) == 5
    picture = page.get(links[0])
    assert picture.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(picture.content)) as opened:
        assert max(opened.size) <= 96
    for other in ("99.jpg", "upload.json", "..%2Fupload.json"):
        assert page.get(links[0].rpartition("/")[0] + f"/{other}").status_code == 404


def test_the_doctor_s_opinion_follows_the_options(page: httpx.Client, api: Api) -> None:
    stored = api.upload(small_model(), PNGS)
    fields = {"quant_key": stored["quant_key"], "model_key": stored["model_key"]}
    assert "span 0…255" not in said(page.post(f"{NEW}/images", data=fields))
    raw = page.post(f"{NEW}/images", data={**fields, "pre": "bytes_bgr", "pre_was": "unit"})
    assert "span 0…255; the model was trained on values around" in said(raw)


def test_arrays_with_nan_cannot_work(page: httpx.Client, api: Api) -> None:
    stored = api.upload(small_model(), [("a.npy", npy(np.full((1, 3, 16, 16), np.nan, np.float32)))])
    answer = page.post(f"{NEW}/images", data={"model_key": stored["model_key"], "quant_key": stored["quant_key"]})
    assert "NaN" in said(answer)
    assert "Cannot work" in said(answer)


def test_a_model_is_described_as_soon_as_it_is_there(page: httpx.Client, api: Api) -> None:
    stored = api.upload(dynamic_model())
    text = said(page.post(f"{NEW}/model", data={"model_key": stored["model_key"], "model_name": "net.onnx"}))
    for expected in ("net.onnx", "Conv 1", "Relu 1", "108", "13 · IR 8", "leaves axes of its inputs open"):
        assert expected in text


def test_a_model_newer_than_the_toolchain_is_told_at_once(page: httpx.Client, api: Api) -> None:
    model = small_models.conv()
    model.ir_version = 99
    stored = api.upload(model.SerializeToString())
    assert "IR version 99" in said(page.post(f"{NEW}/model", data={"model_key": stored["model_key"]}))


def test_weights_left_in_another_file_are_told_at_once(page: httpx.Client, api: Api) -> None:
    model = small_models.conv()
    weight = model.graph.initializer[0]
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    weight.ClearField("raw_data")
    stored = api.upload(model.SerializeToString())
    assert "weights.bin" in said(page.post(f"{NEW}/model", data={"model_key": stored["model_key"]}))


def test_choosing_a_preset_fills_the_advanced_panel(page: httpx.Client) -> None:
    answer = page.post(f"{NEW}/options", data={"preset": "accurate", "preset_was": "fast"})
    assert re.search(r"<option selected>best", answer.text)
    assert "pixels 0 … 255 become 0 … 1" in said(answer)


def test_the_sample_converts_at_one_click(page: httpx.Client, api: Api) -> None:
    job = api.wait(job_of(page.post(f"{NEW}/sample")), has_ended)
    assert (job["status"], job["tags"]) == ("COMPLETED", ["sample"])


@pytest.mark.parametrize("body", [b"", b"--x\r\nnonsense", b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--"])
def test_a_damaged_form_is_refused_and_not_a_fault_of_ours(page: httpx.Client, body: bytes) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert page.post(NEW, content=body, headers=kind).status_code in (400, 422)
    assert page.post(NEW, content=body, headers={"Content-Type": "multipart/form-data"}).status_code in (400, 422)


def test_a_long_or_unknown_field_is_no_fault_of_ours(page: httpx.Client) -> None:
    letters = ",".join("abcdefghijklmnopqrstuvwxyz")
    answer = submit(page, small_model(), [("a.png", png(1))], name="n" * 300, tags=letters)
    assert answer.status_code == 422
    assert "This is too long." in said(answer)
    assert "These are too many." in said(answer)


def test_several_models_and_presets_become_a_sweep(page: httpx.Client, api: Api, service: Deployment) -> None:
    models = [("model", (f"{name}.onnx", small_model())) for name in ("one", "two")]
    fields = {"name": "both", "tags": "night", "preset": "goal", "preset_was": "goal"}
    fields |= {"also.balanced": "1", "also.nonsense": "1", "no_cache": "1"}
    answer = page.post(NEW, data=fields, files=[*models, *(("images", file) for file in PNGS)])
    assert answer.status_code == 303, said(answer)
    path = answer.headers["location"].removeprefix("/ui")
    sweep = api.http.get(path).json()
    assert (sweep["name"], sweep["tags"]) == ("both", ["night"])
    pairs = [(row["model_name"], row["variant"]) for row in sweep["rows"]]
    assert pairs == [("one", "goal"), ("one", "balanced"), ("two", "goal"), ("two", "balanced")]
    submit_pending(service)
    jobs = [api.job(row["job_id"]) for row in sweep["rows"]]
    assert [job["options"]["quantization"]["method"] for job in jobs] == ["best", "percentile"] * 2
    assert [job["no_cache"] for job in jobs] == [True] * 4


def test_a_model_of_a_batch_that_cannot_be_converted_is_named(page: httpx.Client) -> None:
    models = [("model", ("one.onnx", small_model())), ("model", ("two.onnx", b"nothing"))]
    answer = page.post(NEW, data={}, files=[*models, *(("images", file) for file in PNGS)])
    assert answer.status_code == 422
    assert "Two.onnx: " in part_of(answer, 'id="new-model"')
    assert value_of(answer, "model_key")


def test_a_button_fills_in_what_answers_a_finding(page: httpx.Client, api: Api) -> None:
    wide = io.BytesIO()
    Image.new("RGB", (64, 16), "red").save(wide, "PNG")
    stored = api.upload(small_model(), [*PNGS, ("wide.png", wide.getvalue())])
    keys = {name: stored[name] for name in ("model_key", "quant_key")}
    looked = page.post(f"{NEW}/images", data=keys)
    button = re.search(r'name="apply" value="([^"]*letterbox[^"]*)"', looked.text)
    assert button
    filled = page.post(f"{NEW}/apply", data={**keys, "apply": unescape(button[1])})
    assert filled.status_code == 200
    assert '<option value="letterbox" selected>' in filled.text
    assert "Choose letterbox" not in said(filled)
    for nonsense in ("", "[]", "{", '{"model_key": 3, "nothing": "x"}'):
        assert page.post(f"{NEW}/apply", data={**keys, "apply": nonsense}).status_code == 200


def test_the_foot_says_what_would_be_made_and_the_same_by_programs(page: httpx.Client, api: Api) -> None:
    stored = api.upload(small_model(), PNGS)
    keys = {name: stored[name] for name in ("model_key", "quant_key")}
    foot = page.post(f"{NEW}/foot", data={**keys, "name": "it's", "model_name": "a net.onnx", "also.accurate": "1"})
    assert "2 conversions" in said(foot) and "warning" in said(foot)
    one = unescape(said(page.post(f"{NEW}/foot", data={**keys, "name": "it's", "model_name": "a net.onnx"})))
    assert f'"model_key": "{keys["model_key"]}"' in one
    assert '"preprocess": {"color": "auto"' in one, "else what is recognized would be taken"
    assert "modelmill convert 'a net.onnx'" in one and "client.convert('a net.onnx'" in one


def test_the_pictures_of_an_earlier_job_are_offered_once(page: httpx.Client, api: Api) -> None:
    pictures = pngs(7)
    jobs = [api.convert(small_model(), pictures, name=name) for name in ("first of set", "second of set")]
    shown = page.get(NEW)
    assert "second of set" in said(shown) and "first of set" not in said(shown)
    key = f"jobs/{jobs[1]['job_id']}/input/quant.zip"
    picked = page.post(f"{NEW}/apply", data={"apply": json.dumps({"quant_key": key})})
    assert value_of(picked, "quant_key") == key and "7 samples" in said(picked)


def test_a_preset_that_stays_ticked_is_not_made_twice(page: httpx.Client) -> None:
    job_of(submit(page, small_model(), PNGS, preset="fast", preset_was="fast", **{"also.fast": "1"}))
