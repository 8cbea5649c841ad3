"""What the functions that open uploaded files in the sandbox are given, and what they return.

The web names these functions and never imports them, nor the libraries that they need. Requests and results are JSON,
so paths are texts. A hostile file may have taken the child over, and its result may be anything: what names a file is
checked where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NotRequired, TypeAlias, TypedDict, TypeVar

from app.conversion.toolchains.facts import GraphFacts, GraphTensor, MissingOperator, WarningRow
from app.kit.text.json_values import JsonObject

Request = TypeVar("Request", bound=Mapping[str, Any])
Result = TypeVar("Result", bound=Mapping[str, Any])
ErrorJson: TypeAlias = JsonObject
"""See ModelmillError.to_dict."""


class EntryPoint(str, Generic[Request, Result]):
    """The name of a function, `package.module:function`, which is called as function(request, progress)."""

    __slots__ = ("__orig_class__",)  # with the two types


class UnpackLimits(TypedDict):
    max_images: int
    """How many samples are unpacked at most."""
    unpacked_bytes: int
    """How large they may be together, in bytes."""


class PackedSamples(TypedDict):
    images: str
    """The reference samples as they were sent: a zip, .npy, .npz or picture."""
    unpack_to: str
    """A folder, which is created."""
    limits: UnpackLimits


class ModelRequest(TypedDict):
    model: str


class PlacesResult(TypedDict):
    places: list[str]
    """Files with the weights, relative to the model; empty for a file that is no model."""


class ConvertRequest(ModelRequest):
    into: str
    """The ONNX file that is written."""


class MergeRequest(ConvertRequest):
    """The model is an ONNX file, or a zip with one."""

    weights: str
    """A zip of the files beside it; empty: there are none."""
    unpack_to: str
    """An empty folder."""
    max_bytes: int


class MergeResult(TypedDict):
    is_merged: bool
    """False for a zip without a model, which is left as it is."""


class ConvertResult(TypedDict):
    is_converted: bool
    """False for a file of another format, which is left as it is."""


class CheckModelRequest(ModelRequest):
    max_bytes: int


class DecoderRequest(CheckModelRequest):
    decoder: str
    """A Python file, whose text is written into the model's."""


class SubmissionRequest(PackedSamples, ModelRequest):
    options: JsonObject
    """Options as JSON."""
    is_preprocess_open: NotRequired[bool]
    """Whether no preprocessing was chosen, so that the recognized one may be used."""
    model_bytes: int
    """Largest size of the model."""
    images_bytes: int
    """Largest size of the packed samples."""


class SubmissionResult(TypedDict):
    model: GraphFacts
    samples: JsonObject
    """samples, skipped, kinds, ignored; labeled: how many have labels."""
    warnings: list[WarningRow]
    changes: list[str]
    """Sentences."""
    recognition: JsonObject | None
    """Recognition.to_json with is_taken."""
    sha256: dict[str, str]
    """Hex digests of both inputs, by the names of their files."""
    calibration_sha256: str
    """Digest of the samples, regardless of their packing."""


class ModelPreviewRequest(CheckModelRequest):
    toolchains: list[str]


class OpenInput(TypedDict):
    name: str
    shape: list[Any]


class ModelPreviewResult(TypedDict):
    facts: GraphFacts
    open_inputs: list[OpenInput]
    """Inputs whose shape has to be given."""
    expects: JsonObject
    """See ExpectedRange."""
    recognition: JsonObject | None
    """See Recognition.to_json; None for a model that takes no pictures."""
    missing: dict[str, list[MissingOperator]]
    """Operators that each chip probably lacks."""
    problems: dict[str, ErrorJson]
    """Why a toolchain cannot use the model."""


class PicturesPreviewRequest(PackedSamples):
    thumbs: str
    """A folder for thumbnails."""
    inputs: list[GraphTensor] | None
    """Those of the model, with fixed shapes; None: they are not known."""


class Thumbnail(TypedDict):
    file: str
    name: str
    """Of the sample."""


class PicturesPreviewResult(TypedDict):
    count: int
    size_bytes: int
    kinds: dict[str, int]
    formats: dict[str, int]
    ignored: list[str]
    unreadable: list[JsonObject]
    """See UnreadableSample."""
    looked_at: int
    pictures: list[JsonObject]
    """See PictureStats."""
    arrays: list[JsonObject]
    """See ArrayStats; its figures are there only if the request has the inputs of a model."""
    thumbnails: list[Thumbnail]
    problem: ErrorJson | None


class ThumbnailsRequest(PackedSamples):
    into: str
    """A folder, in which each picture is <index in names>.webp."""
    names: list[str]
    """Of samples."""


class ThumbnailsResult(TypedDict):
    made: list[int]
    """Indexes of the names that have a picture."""


class PictureRequest(TypedDict):
    picture: str
    into: str
    """The small JPEG."""


class OutlinesRequest(TypedDict):
    graphs: dict[str, str]
    """Paths, by name."""


class OutlineNode(TypedDict):
    name: str
    op: str
    outputs: list[str]
    sources: list[int]
    """Indexes of the nodes it reads from."""
    bits: str
    """float, int16 or int8."""


class Outline(TypedDict):
    nodes: list[OutlineNode]
    """None for a graph that is too large to be drawn."""
    total: int


class AnswersRequest(ThumbnailsRequest):
    float: str
    """out.onnx"""
    int8: str
    """out.bie"""
    preprocess: JsonObject
    """As in the options."""


class ModelAnswer(TypedDict):
    boxes: list[list[float]]
    """x1, y1, x2, y2 in pixels of the written picture, score, label."""
    classes: list[tuple[int, float]]
    """Label and probability, the most likely first."""
    keypoints: NotRequired[list[list[list[float]]]]
    """x, y, score, for each box of a model that has them."""
    masks: NotRequired[list[list[list[float]]]]
    """x, y, x, y, …: the corners of the masks of each box of a model that has them."""
    texts: NotRequired[list[str]]
    """What is written in each box, of a model that reads."""


class PictureAnswers(TypedDict):
    place: int
    """Index in the names."""
    width: int
    height: int
    float: ModelAnswer
    int8: ModelAnswer


class AnswersResult(TypedDict):
    problem: str
    """Why nothing can be read; empty where it can."""
    decoder: str
    is_sure: bool
    """Whether the family is certain."""
    labels: list[str]
    pictures: list[PictureAnswers]


Converter: TypeAlias = EntryPoint[ConvertRequest, ConvertResult]
"""Creates an ONNX from a model of another format."""

PLACES = EntryPoint[ModelRequest, PlacesResult]("app.conversion.intake.bundle:places")
MERGE = EntryPoint[MergeRequest, MergeResult]("app.conversion.intake.bundle:merge")
CHECK_SUBMISSION = EntryPoint[SubmissionRequest, SubmissionResult]("app.conversion.intake.submission:check_submission")
PREVIEW_MODEL = EntryPoint[ModelPreviewRequest, ModelPreviewResult]("app.conversion.intake.preview:preview_model")
PREVIEW_PICTURES = EntryPoint[PicturesPreviewRequest, PicturesPreviewResult](
    "app.conversion.intake.preview:preview_pictures"
)
MAKE_THUMBNAILS = EntryPoint[ThumbnailsRequest, ThumbnailsResult]("app.conversion.intake.thumbnails:make_thumbnails")
MAKE_PICTURE = EntryPoint[PictureRequest, JsonObject]("app.conversion.intake.thumbnails:make_picture")
OUTLINE_GRAPHS = EntryPoint[OutlinesRequest, dict[str, Outline]]("app.conversion.intake.graph_outline:outline_graphs")
DRAW_ANSWERS = EntryPoint[AnswersRequest, AnswersResult]("app.conversion.intake.answer_pictures:draw_answers")
