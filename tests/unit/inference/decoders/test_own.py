"""Decoders of installed packages: chosen, recognized, and left out or reported where they are faulty."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.conversion.toolchains.host.task_recognition import task_meter
from app.edge.video.stages.parameters import predictor_options
from app.inference.decoders import OutputSpec, family_of
from app.inference.decoders.own import own_families
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.installed_decoders import check_installed, list_installed_decoders
from app.inference.model_card import MODEL_CARD
from app.inference.prediction import Decoder
from app.joint_inference.hard_examples.base import BadParameter
from app.joint_inference.model.resource import Role
from app.joint_inference.worker_options import worker_options
from app.kit.errors import BadInput
from app.kit.web.http import checked
from app.model_registry.pages.new import NewForm
from app.model_registry.schemas import NewModel
from app.video.errors import BadStage
from tests.harness.models.own_decoder import own_decoders
from tests.harness.models.vision import answering, card, opened, plain

PLATES = Decoder("plates")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_decoders(tmp_path, monkeypatch):
        yield


def rows(count: int = 9) -> dict[str, np.ndarray]:
    values = np.zeros((1, count, 7), np.float32)
    values[0, 2] = [2, 4, 8, 12, 0.9, 0, 0]
    return {"found": values}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("chosen", [Decoder.AUTO, PLATES])
def test_an_installed_decoder_is_recognized_or_chosen(tmp_path: Path, chosen: Decoder) -> None:
    predictor = opened(tmp_path, answering(rows()), card(decoder=chosen))
    assert (predictor.decoder, predictor.labels) == (PLATES, ("plate",))
    (box,) = predictor.predict(plain(1, 2, 3, width=32, height=32)).boxes
    assert (box.x1, box.y1, box.x2, box.y2) == (4, 8, 16, 24)


@pytest.mark.usefixtures("installed")
def test_the_products_own_come_first_and_other_outputs_are_refused() -> None:
    assert family_of(Decoder.AUTO, [OutputSpec("y", (1, 10))], (16, 16)).name is Decoder.CLASSIFIER
    with pytest.raises(ModelUnusable, match="not those of plates") as caught:
        family_of(PLATES, [OutputSpec("y", (1, 10))], (16, 16))
    assert caught.value.hint.endswith("classifier, faulty, plates.")


@pytest.mark.usefixtures("installed")
def test_the_loss_of_a_conversion_is_told_by_its_boxes() -> None:
    meter = task_meter(answering(rows()))
    assert meter is not None
    meter.add(rows(), rows())
    assert (meter.agreement().kind, meter.agreement().float_agreement) == ("box_f1", 1)


@pytest.mark.usefixtures("installed")
def test_what_cannot_be_used_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert [family.name for family in own_families()] == ["faulty", "plates"]
    told = " ".join(caplog.messages)
    for remark in ("misnamed", "is no subclass", "it has no preprocess", "Gone", "name is taken", "Not A Name"):
        assert remark in told
    assert "others" not in list_installed_decoders()


@pytest.mark.usefixtures("installed")
def test_a_fault_of_its_code_is_said_as_the_models(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelUnusable, match="not those of faulty"):
        family_of(Decoder("faulty"), [OutputSpec("y", (1, 9, 7))], (16, 16))
    predictor = opened(tmp_path, answering(rows(8)), card(decoder=Decoder("faulty")))
    assert predictor.labels == ()
    with pytest.raises(InferenceFailed, match="decoder faulty has failed: ZeroDivisionError: a width of zero"):
        predictor.predict(plain(1, 2, 3))
    assert "fits of the decoder faulty" in " ".join(caplog.messages)


@pytest.mark.usefixtures("installed")
def test_it_can_be_chosen_wherever_decoders_are() -> None:
    assert predictor_options({"decoder": "plates"}, 0.5).decoder == PLATES
    assert worker_options(Role.CLOUD, {"decoder": "plates"}).predictor.decoder == PLATES
    assert NewModel(name="a", job_id="b", decoder="plates").decoder == PLATES  # type: ignore[arg-type]
    assert NewForm.model_validate({"decoder": "plates"}).decoder == PLATES
    assert PLATES.display_name == "plates"


def test_one_that_is_not_installed_is_refused_with_those_that_are() -> None:
    assert PLATES not in list_installed_decoders()
    with pytest.raises(BadStage, match="no decoder 'plates'") as caught:
        predictor_options({"decoder": "plates"}, 0.5)
    assert "yolox" in caught.value.hint
    with pytest.raises(BadParameter, match="one of auto"):
        worker_options(Role.CLOUD, {"decoder": "plates"})
    with pytest.raises(BadInput, match="no decoder 'plates'; known are auto"):
        checked(lambda: NewForm.model_validate({"decoder": "plates"}))
    with pytest.raises(ValueError, match="known are"):
        check_installed(PLATES)
    assert check_installed(Decoder.YOLOX) is Decoder.YOLOX


def test_a_model_that_names_it_is_read_where_it_is_not_installed_and_refused_when_it_is_opened(tmp_path: Path) -> None:
    sent = MODEL_CARD.read(MODEL_CARD.write(card(decoder=PLATES)))
    assert sent.decoder == PLATES and not sent.decoder.is_bundled
    assert pickle.loads(pickle.dumps(PLATES)) == PLATES
    with pytest.raises(ModelUnusable, match="decoder plates is not installed here") as caught:
        opened(tmp_path, answering(rows()), sent)
    assert "Install its package" in caught.value.hint


@pytest.mark.parametrize("name", ["", "Plates", "a b", "x" * 41, "9lives", "../plates"])
def test_other_texts_are_no_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid Decoder"):
        Decoder(name)
