"""The preprocessing of a pack, in NumPy and in C, gives what the product's gives."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.exchange.pack import contents, files
from app.exchange.pack.contents import c_header
from app.inference.preprocess_options import read_preprocess
from app.inference.preprocessing import Preprocessor, input_layout

FOLDER = Path(files.__file__).parent
SHAPES = {"small": (7, 9), "same": (32, 24), "large": (97, 131), "flat": (5, 300)}
CASES: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "defaults": ((1, 3, 32, 24), "float32", {}),
    "bgr, letterbox": ((1, 3, 33, 40), "float32", {"color": "BGR", "resize": "letterbox", "pad_value": 7}),
    "per channel, last": (
        (1, 20, 21, 3),
        "float32",
        {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
    ),
    "grey": ((1, 1, 28, 28), "float32", {"scale": 1.0, "mean": [127.0], "std": [128.0]}),
    "integers": ((1, 3, 16, 16), "int8", {"scale": 1.0, "mean": [128.0]}),
    "batch": ((2, 3, 12, 12), "float32", {"resize": "letterbox"}),
}


def prepared(folder: Path, case: str) -> tuple[dict[str, Any], Preprocessor]:
    shape, dtype, options = CASES[case]
    spec = contents._Spec("x", list(shape), dtype)
    chosen = contents.Options.model_validate({"preprocess": options})
    contents._write_preprocessing(folder, [spec], chosen)
    layout = input_layout(shape, (0, 0))
    return json.loads((folder / "preprocess.json").read_text()), Preprocessor(layout, dtype, read_preprocess(options))


def pictures() -> list[np.ndarray]:
    return [np.random.default_rng(len(name)).integers(0, 256, (*size, 3), np.uint8) for name, size in SHAPES.items()]


def assert_alike(values: np.ndarray, expected: np.ndarray, case: str) -> None:
    """One level: versions of Pillow filter rows or columns first, and round in between."""
    assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
    _, dtype, options = CASES[case]
    level = contents._get_level(contents.Options.model_validate({"preprocess": options}), dtype)
    np.testing.assert_allclose(values.astype(np.float64), expected.astype(np.float64), rtol=0, atol=level)
    assert np.mean(values == expected) > 0.7


@pytest.mark.parametrize("case", CASES)
def test_numpy_prepares_a_picture_as_the_product_does_to_one_level(case: str, tmp_path: Path) -> None:
    data, product = prepared(tmp_path, case)
    (tmp_path / "preprocess.py").write_text((FOLDER / "preprocess.py").read_text())
    spec = importlib.util.spec_from_file_location("packed_preprocess", tmp_path / "preprocess.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for rgb in pictures():
        assert_alike(module.prepare(rgb, data), product.prepare(rgb)[0], case)


@pytest.mark.parametrize("case", CASES)
def test_c_prepares_a_picture_as_the_product_does_to_one_level(case: str, tmp_path: Path) -> None:
    data, product = prepared(tmp_path, case)
    assert (tmp_path / "preprocess.h").read_text() == c_header(data)
    source, library = FOLDER / "preprocess.c", tmp_path / "preprocess.so"
    flags = ["-O2", "-Wall", "-Werror", "-ffp-contract=off", "-shared", "-fPIC", f"-I{tmp_path}"]
    subprocess.run(["gcc", *flags, "-o", library, source, "-lm"], check=True)
    program = ctypes.CDLL(str(library))
    for rgb in pictures():
        expected = product.prepare(rgb)[0][:1]
        values = np.zeros_like(expected)
        height, width = rgb.shape[:2]
        pixels = np.ascontiguousarray(rgb)
        places = [array.ctypes.data_as(ctypes.c_void_p) for array in (pixels, values)]
        assert program.preprocess(places[0], width, height, places[1]) == 0
        assert_alike(values, expected, case)


def test_each_is_at_most_40_lines_of_code() -> None:
    for name, comment in (("preprocess.py", '"""'), ("preprocess.c", "/*")):
        lines = (FOLDER / name).read_text().splitlines()
        code = [line for line in lines if line.strip() and not line.strip().startswith((comment, "gcc"))]
        assert len(code) <= 40, name
