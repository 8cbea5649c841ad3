"""Errors of inference on pictures, one class per cause. Messages are written where they are raised."""

from __future__ import annotations

from app.kit.errors import BadInput, ModelmillError


class ModelUnusable(BadInput):
    """The model cannot be run here, or no decoder can read its outputs. The hint says what to change."""

    code = "MODEL_UNUSABLE"


class DamagedPicture(BadInput):
    """Bytes that are not a whole JPEG or PNG, or one that is too large."""

    code = "PICTURE_DAMAGED"


class SourceUnusable(BadInput):
    """A source of frames that is not there, cannot be read, or gave not one frame. The message names it."""

    code = "SOURCE_UNUSABLE"


class DecoderMissing(SourceUnusable):
    """The source is a video, and this machine has no library to read it with."""

    code = "DECODER_MISSING"


class InferenceFailed(ModelmillError):
    """A model that ran before did not run on this picture: its device is gone, or its answer holds no numbers."""

    code = "INFERENCE_FAILED"
    can_retry = True
