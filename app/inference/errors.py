"""Errors of inference on pictures, one class per cause. Messages are written where they are raised."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError


class ModelUnusable(BadInput, code="MODEL_UNUSABLE"):
    """The model cannot be run here, or no decoder can read its outputs. The hint says what to change."""


class InvalidModel(BadInput, code="MODEL_INVALID"):
    """The protobuf parses, but the graph breaks the ONNX rules; or the file is not what its name says."""


class UnsupportedOperator(BadInput, code="MODEL_UNSUPPORTED_OPERATOR"):
    """onnxruntime has no implementation of an operator. detail: operator, node."""


class WrongSampleShape(BadInput, code="IMAGES_WRONG_SHAPE"):
    """An array or picture does not have the shape of the model's input."""


class DamagedPicture(BadInput, code="PICTURE_DAMAGED"):
    """The bytes are not a complete JPEG or PNG, or the picture is too large."""


class SourceUnusable(BadInput, code="SOURCE_UNUSABLE"):
    """A source of frames does not exist, cannot be read, or has no frame. The message names it."""


class DecoderMissing(SourceUnusable, code="DECODER_MISSING"):
    """The source is a video, and this machine has no library to read it with."""


class InferenceFailed(ModelmillError, code="INFERENCE_FAILED", can_retry=True):
    """A model that ran before fails on this picture: its device is gone, or its answer is not numbers."""
