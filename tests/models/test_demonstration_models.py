"""The classifiers of the demonstration of joint inference: they learn, and their ONNX says what they say."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from app.joint_inference.cli.demo.models import SMALL, draw_digits, probabilities, to_onnx, train


def test_a_classifier_learns_the_digits_and_its_onnx_says_the_same() -> None:
    drawn, held_out = draw_digits(1500, seed=1), draw_digits(200, seed=2)
    layers = train(drawn, SMALL, seed=0)
    expected = probabilities(layers, held_out)
    assert np.mean(expected.argmax(axis=1) == held_out.truth) > 0.6
    content = to_onnx(layers)
    onnx.checker.check_model(onnx.load_from_string(content))
    session = onnxruntime.InferenceSession(content)
    for number, picture in enumerate(held_out.pictures[:20]):
        (given,) = session.run(None, {"input": picture[None, None].astype(np.float32) / 255})
        assert np.allclose(given[0], expected[number], atol=1e-5)
