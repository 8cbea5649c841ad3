"""What a host of stages serves to whom, what it is told, and when a stage rests."""

from __future__ import annotations

import asyncio
import base64
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app.edge.video.stage_host.http_server import BearerGuard, with_pictures
from app.edge.video.stage_host.served_stages import ServedStages
from app.edge.video.work import ServicesWork
from app.edge.work_file import VARIABLE, WorkMissing, path_from_environment
from app.edge.worker_server import check_bearer
from app.inference.model_card import Format, ModelCard
from app.inference.picture_codec import encode
from app.kit.errors import BadRequest, ModelmillError, Unauthorized
from app.video.errors import BadStage, StageNotFound
from app.video.model.job import ServicesContent, StageHost
from app.video.model.kinds import Stage, StageKind, Type
from app.video.model.stage_call import Call, Encoded

CARD = ModelCard("faces", Format.ONNX, "a" * 64, 5)
OTHER = ModelCard("faces-small", Format.NEF, "b" * 64, 5, twin_sha256="c" * 64)
KIND = StageKind("k", {"photo": Type.IMAGE, "clip": Type.CLIP, "bbox": Type.BOXES}, {}, optional=frozenset({"clip"}))
PICTURE = encode(np.zeros((40, 40, 3), np.uint8))[0]


def work(tmp_path: Path, **stages: Stage) -> ServicesWork:
    content = ServicesContent(
        {name.replace("__", "/"): stage for name, stage in stages.items()},
        "s3cret",
        (StageHost("cloud-1", "cloud", "10.0.0.2", "http://10.0.0.2:1", "other"),),
        3,
    )
    blobs = {card: tmp_path / card for card in ("a" * 64, "b" * 64, "c" * 64)}
    return ServicesWork(
        content,
        blobs,
        host="127.0.0.1",
        port=5500,
        folder=tmp_path,
        agent_url="http://127.0.0.1:7000",
        node="edge-1",
    )


def faces(*variants: ModelCard, **parameters: str) -> Stage:
    return Stage("faces", "face_detection", tuple((card,) for card in variants), parameters)


def test_what_a_host_is_told_is_read_as_it_was_written_and_by_nobody_else(tmp_path: Path) -> None:
    told, file = work(tmp_path, faces=faces(CARD, OTHER, score_threshold="0.5")), tmp_path / "below" / "work.json"
    told.write(file)
    assert ServicesWork.read(file) == told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["work.json"]


def test_a_stage_has_the_nodes_provider_unless_it_has_its_own_or_can_have_none(tmp_path: Path) -> None:
    poses = Stage("poses", "face_alignment", ((CARD,),), {})
    stages = {"plain": faces(CARD), "own": faces(CARD, provider="cpu"), "poses": poses}
    served = ServedStages(replace(work(tmp_path, **stages), provider="openvino"))
    opened = {name: served.variant(name, 0).content["parameters"].get("provider") for name in stages}
    assert opened == {"plain": "openvino", "own": "cpu", "poses": None}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"content": {}}', '{"content": 1, "blobs": {}}'])
def test_what_is_no_work_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "work.json"
    with pytest.raises(WorkMissing, match="does not say"):
        ServicesWork.read(file)
    file.write_text(text)
    with pytest.raises(WorkMissing, match="does not say"):
        ServicesWork.read(file)


def test_the_environment_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(WorkMissing, match="not set"):
        path_from_environment()
    monkeypatch.setenv(VARIABLE, "/somewhere/work.json")
    assert path_from_environment() == Path("/somewhere/work.json")


def test_a_jobs_own_stage_is_found_first_and_by_that_job_alone(tmp_path: Path) -> None:
    served = ServedStages(work(tmp_path, faces=faces(CARD), J1__faces=faces(OTHER), J1__own=faces(CARD)))
    assert served.key_of("J1", "faces") == "J1/faces"
    assert served.key_of("J2", "faces") == served.key_of("", "faces") == "faces"
    assert served.names == ["faces"]
    for job, name in (("J2", "own"), ("", "own"), ("", "J1/own"), ("J1", "nix"), ("", "")):
        with pytest.raises(StageNotFound):
            served.key_of(job, name)


def test_a_variant_changes_its_id_with_anything_of_it(tmp_path: Path) -> None:
    plain, again, other, strict = (
        ServedStages(work(tmp_path, faces=stage)).variant("faces", 0)
        for stage in (faces(CARD), faces(CARD), faces(OTHER), faces(CARD, score_threshold="0.9"))
    )
    assert plain.id == again.id
    assert len({plain.id, other.id, strict.id}) == 3
    assert plain.id in ServedStages(work(tmp_path, faces=faces(CARD))).ids
    assert other.content["models"][0]["twin"] == str(tmp_path / ("c" * 64))
    assert ServedStages(work(tmp_path, faces=faces(CARD, timeout_s="3"))).variant("faces", 0).timeout_s == 3


@pytest.mark.parametrize(
    ("stage", "model_id", "error", "message"),
    [
        (faces(CARD), 1, BadRequest, "no model_id 1"),
        (faces(ModelCard("lost", Format.ONNX, "d" * 64, 5)), 0, ModelmillError, "lost is not on this node"),
        (Stage("faces", "face_detection", ((CARD, OTHER),)), 0, BadRequest, "has 2 models"),
        (Stage("faces", "helmet_detection", ((CARD,),)), 0, BadStage, "no kind of stage 'helmet_detection'"),
        (faces(CARD, timeout_s="never"), 0, BadStage, "timeout_s is a number"),
    ],
)
def test_a_variant_that_cannot_be_is_told(
    tmp_path: Path, stage: Stage, model_id: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ServedStages(work(tmp_path, faces=stage)).variant("faces", model_id)


def test_a_stage_without_models_has_one_variant(tmp_path: Path) -> None:
    served = ServedStages(work(tmp_path, motion=Stage("motion", "motion", ())))
    assert served.variant("motion", 0).cards == ()
    with pytest.raises(BadRequest, match="no model_id 1"):
        served.variant("motion", 1)


def test_pictures_may_have_any_name_that_the_kind_gives_them() -> None:
    text = base64.b64encode(PICTURE).decode()
    call = with_pictures(Call("s", fields={"photo": text, "clip": [text, text], "bbox": [], "surplus": 1}), KIND)
    assert {name: len(several) for name, several in call.pictures.items()} == {"photo": 1, "clip": 2}
    assert call.fields == {"bbox": []}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("s", fields={"bbox": []}), "photo of k is missing"),
        (Call("s", pictures={"photo": (Encoded(PICTURE),)}), "bbox of k is missing"),
        (Call("s", pictures={"photo": (Encoded(PICTURE),) * 2}, fields={"bbox": []}), "is one picture, not 2"),
        (Call("s", pictures={"bbox": (Encoded(PICTURE),)}), "takes no picture 'bbox'"),
        (Call("s", fields={"photo": "eval('1')", "bbox": []}), "photo is no base64"),
    ],
)
def test_what_does_not_fit_the_kind_is_told(call: Call, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        with_pictures(call, KIND)


@pytest.mark.parametrize(
    ("client", "headers", "path", "status"),
    [
        ("10.0.0.9", {}, "/service/a", 401),
        ("10.0.0.9", {"authorization": "Bearer wrong"}, "/service/a", 401),
        ("10.0.0.9", {"authorization": "Basic s3cret"}, "/service/a", 401),
        ("10.0.0.9", {"authorization": "Bearer s3cret"}, "/service/a", 200),
        ("10.0.0.9", {}, "/healthz", 200),
        ("127.0.0.1", {}, "/service/a", 200),
        ("127.0.0.1", {"origin": "http://evil"}, "/service/a", 401),
        ("127.0.0.1", {"origin": "http://evil", "authorization": "Bearer s3cret"}, "/service/a", 200),
    ],
)
def test_who_is_not_on_this_machine_shows_the_secret(
    client: str, headers: dict[str, str], path: str, status: int
) -> None:
    seen = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("in")(scope, receive, send)

    async def send(message: dict[str, object]) -> None:  # type: ignore[misc]
        seen.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "client": (client, 5),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(BearerGuard(inner, lambda: "s3cret")(scope, None, send))  # type: ignore[arg-type]
    assert seen[0] == status


def test_a_host_without_a_secret_lets_no_stranger_in() -> None:
    with pytest.raises(Unauthorized):
        check_bearer({"authorization": "Bearer "}, "")
