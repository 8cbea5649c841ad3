"""Decoders in the files of models: read in a confined process, and refused where they are faulty."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from app.inference.decoders import enclosed
from app.inference.decoders.enclosed import EnclosedFamily
from app.inference.errors import InferenceFailed, InvalidModel, ModelUnusable
from app.inference.prediction import ENCLOSED_DECODER, MOST_DECODER_SOURCE, Decoder
from app.kit.errors import BadRequest
from app.model_registry.cli import commands
from app.model_registry.own_decoder import store_decoder
from tests.harness.models.vision import answering, card, opened, plain, save

pytestmark = pytest.mark.slow  # each of them starts a process

DOCUMENT = Path(__file__).parents[4] / "docs/joint-inference.md"
FAULTS = """
import os, socket, time
import numpy as np

def decode(outputs, size, floor):
    fault = int(outputs["fault"][0])
    if fault == 1: raise RuntimeError("no boxes today")
    if fault == 2: return [[1, 2, 3, 4]], [2.0], [0]
    if fault == 3: return [[1, 2, 3, np.nan]], [0.5], [0]
    if fault == 4: return [[1, 2, 3, 4]], [0.5], [-1]
    if fault == 5: return [[1, 2, 3, 4]], [0.5], [0.5]
    if fault == 6: return [[1, 2, 3, 4]], [0.5, 0.4], [0]
    if fault == 7: return None
    if fault == 8: return np.zeros((20_000, 4)), np.zeros(20_000), np.zeros(20_000, int)
    if fault == 9: return open("/etc/shadow").read()
    if fault == 10: open("written", "w")
    if fault == 11: socket.socket()
    if fault == 12: return bytearray(2 << 30)
    if fault == 20: os._exit(3)
    if fault == 21:
        while True: pass
    if fault == 22:
        for descriptor in range(3, 10_000):
            try: os.write(descriptor, b"\\xff" * 64)
            except OSError: pass
    return [[1, 2, 3, 4]], [0.5], [7]
"""


def example() -> str:
    """The file in the documentation."""
    section = DOCUMENT.read_text(encoding="utf-8").split("### A decoder in the model's file", 1)[1]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return str(blocks[0])


def rows() -> dict[str, np.ndarray]:
    return {"rows": np.array([[[2, 4, 8, 12, 0.9], [2, 4, 8, 12, 0.8], [1, 1, 3, 3, 0.1]]], np.float32)}


def test_the_example_of_the_documentation_reads_its_model(tmp_path: Path) -> None:
    path = save(tmp_path, answering(rows()))
    store_decoder(path, "def decode(outputs, size, floor): return [], [], []\n")
    (tmp_path / "plates.py").write_text(example())
    done = CliRunner().invoke(commands, ["set-decoder", str(path), str(tmp_path / "plates.py")])
    assert done.exit_code == 0, done.output
    model = onnx.load(path)
    assert [entry.key for entry in model.metadata_props] == [ENCLOSED_DECODER]
    predictor = opened(tmp_path, model)
    assert (predictor.decoder, predictor.labels) == (Decoder.ENCLOSED, ("plate",))
    (box,) = predictor.predict(plain(1, 2, 3, width=32, height=32)).boxes
    assert (box.x1, box.y1, box.x2, box.y2, round(box.score, 3)) == (4, 8, 16, 24, 0.9)
    predictor.close()
    with pytest.raises(InferenceFailed, match="closed"):
        predictor.predict(plain(1, 2, 3))


@pytest.fixture(scope="module")
def faulty() -> Iterator[EnclosedFamily]:
    family = EnclosedFamily(FAULTS)
    yield family
    family.close()


def read(family: EnclosedFamily, fault: int) -> list[int]:
    return family.find({"fault": np.array([fault])}, (32, 32), 0.1).labels.tolist()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, r"RuntimeError: no boxes today \(line 7\)"),
        (2, "a score outside of 0..1"),
        (3, "no numbers"),
        (4, "a class that is no index"),
        (5, "classes are indexes"),
        (6, "1 boxes have 2 scores and 1 classes"),
        (7, "TypeError"),
        (8, "up to 10000 boxes"),
        (9, "PermissionError"),
        (10, "PermissionError"),
        (11, "PermissionError|Operation not permitted"),
        (12, "more memory"),
        (20, "the process of the model's own decoder has ended"),
        (22, "no answer|has ended"),
    ],
)
def test_a_fault_fails_the_picture_and_the_next_one_is_read(faulty: EnclosedFamily, fault: int, message: str) -> None:
    with pytest.raises(InferenceFailed, match=message) as caught:
        read(faulty, fault)
    assert caught.value.hint
    assert read(faulty, 0) == [7]


def test_one_that_hangs_is_ended(faulty: EnclosedFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(faulty, 0) == [7]
    with monkeypatch.context() as patched:
        patched.setattr(enclosed, "ANSWER_S", 0.2)
        with pytest.raises(InferenceFailed, match="has not answered within"):
            read(faulty, 21)
    assert read(faulty, 0) == [7]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "has no decoder of its own"),
        ("x = 1", "it has no function decode"),
        ("import os\nos.listdir('/root')\n", r"PermissionError.*\(line 2\)"),
        ("def decode(outputs, size, floor): return 1 / 0", "ZeroDivisionError"),
        ("LABELS = (1,)\ndef decode(*_): return [], [], []", "LABELS"),
        ("SIZE = (320,)\ndef decode(*_): return [], [], []", "SIZE"),
        ("PREPROCESS = {'std': 0}\ndef decode(*_): return [], [], []", "PREPROCESS"),
        ("#" * (MOST_DECODER_SOURCE + 1), "longer than 256 KiB"),
    ],
)
def test_a_model_whose_decoder_cannot_read_it_is_refused(tmp_path: Path, source: str, message: str) -> None:
    model = answering(rows())
    onnx.helper.set_model_props(model, {ENCLOSED_DECODER: source})
    with pytest.raises(ModelUnusable, match=message):
        opened(tmp_path, model, card(decoder=Decoder.ENCLOSED))


def test_a_named_decoder_is_used_instead(tmp_path: Path) -> None:
    model = answering({"y": np.array([[0.25, 0.75]], np.float32)})
    onnx.helper.set_model_props(model, {ENCLOSED_DECODER: "raise SystemExit"})
    assert opened(tmp_path, model, decoder=Decoder.CLASSIFIER).predict(plain(1, 2, 3)).label == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def decode(:", "the decoder is not valid Python: invalid syntax in line 1$"),
        ("def other(): pass", "no function decode"),
        ("\0", "the decoder is not valid Python: source code string cannot contain null bytes"),
        ("#" * (MOST_DECODER_SOURCE + 1), "longer than"),
    ],
)
def test_what_is_no_decoder_is_not_stored(tmp_path: Path, source: str, message: str) -> None:
    path = save(tmp_path, answering(rows()))
    before = path.read_bytes()
    with pytest.raises(BadRequest, match=message):
        store_decoder(path, source)
    assert path.read_bytes() == before


def test_what_is_no_model_gets_no_decoder(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no protobuf")
    with pytest.raises(InvalidModel, match="no ONNX model"):
        store_decoder(tmp_path / "model.onnx", "def decode(*_): pass")
