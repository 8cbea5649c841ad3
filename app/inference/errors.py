"""Errors of inference on pictures, one class per cause. Messages are written where they are raised."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError


class ModelUnusable(BadInput):
    """The model cannot be run here, or no decoder can read its outputs. The hint says what to change."""

    code = "MODEL_UNUSABLE"


class InvalidModel(BadInput):
    """The protobuf parses, but the graph breaks the ONNX rules; or the file is not what its name says."""

    code = "MODEL_INVALID"


class UnsupportedOperator(BadInput):
    """onnxruntime has no implementation of an operator. detail: operator, node."""

    code = "MODEL_UNSUPPORTED_OPERATOR"


class WrongSampleShape(BadInput):
    """An array or picture does not have the shape of the model's input."""

    code = "IMAGES_WRONG_SHAPE"


class DamagedPicture(BadInput):
    """The bytes are not a complete JPEG or PNG, or the picture is too large."""

    code = "PICTURE_DAMAGED"


class SourceUnusable(BadInput):
    """A source of frames does not exist, cannot be read, or has no frame. The message names it."""

    code = "SOURCE_UNUSABLE"


class DecoderMissing(SourceUnusable):
    """The source is a video, and this machine has no library to read it with."""

    code = "DECODER_MISSING"


class InferenceFailed(ModelmillError):
    """A model that ran before fails on this picture: its device is gone, or its answer is not numbers."""

    code = "INFERENCE_FAILED"
    can_retry = True
