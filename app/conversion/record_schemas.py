"""The stored parts of a job's record, as the API's document describes them. Other members are allowed.

A member with a default is not there in every record: it depends on stage, toolchain and version.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from app.inference.preprocess_options import Preprocess
from app.kit.text.json_values import JsonObject


class _Stored(BaseModel):
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class SaturationSummaryPoint(_Stored):
    samples: int
    """Calibration samples."""
    snr_db: float | None


class SaturationSummary(_Stored):
    """SNR against the number of calibration samples."""

    points: list[SaturationSummaryPoint]
    judges: int
    """Samples that judged and did not calibrate."""
    enough: int | None
    """The fewest samples that no larger number beats; null: more samples may gain more."""


class StageSummary(_Stored):
    """The few numbers of a stage; its report has all."""

    cpu_s: float = 0.0
    """CPU time that the stage took, in seconds."""
    wall_s: float = 0.0
    """Time that the stage took, in seconds."""
    peak_bytes: int = 0
    """Largest memory of the stage."""
    size_bytes: int = 0
    """Size of the output."""
    operators: int = 0
    """ONNX: number of nodes."""
    parameters: int = 0
    macs: int | None = None
    """ONNX: multiply-adds for one input; null: not known."""
    changes: int = 0
    """ONNX: number of changes of the graph."""
    exact: bool = False
    """ONNX: whether the outputs are bit for bit those of the original."""
    snr_db: float | None = None
    """BIE: SNR of the worst output, in dB; null: not measured."""
    cosine: float | None = None
    """BIE: cosine similarity of the worst output, 0 to 1."""
    passed: bool | None = None
    """BIE: whether the rule of quality is met; null: not measured, or nothing was quantized."""
    samples: int = 0
    """BIE: samples that were judged."""
    latency_ms: float | None = None
    """BIE of the toolchain host: CPU time of one inference on the machine that converted, in ms."""
    saturation: SaturationSummary | None = None
    expected_off_db: float = 0.0
    """BIE: mean error of the SNR that the search predicted of its candidates, in dB."""
    fps: float | None = None
    """BIE of the toolchain kneron: frames per second, as the vendor estimates them."""
    itc_ms: float | None = None
    """BIE of the toolchain kneron: latency of one frame, as the vendor estimates it, in ms."""
    bit_true: bool = False
    """NEF of the toolchain host: whether its outputs are bit for bit those of the BIE."""


class TensorFacts(_Stored):
    name: str
    shape: list[int | str | None]
    dtype: str


class ModelFacts(_Stored):
    """The model that was submitted, after its shapes were fixed."""

    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
    opset: int | None
    opsets: dict[str, int]
    """Versions of the operator sets, by domain."""
    ir_version: int
    producer: str
    operators: dict[str, int]
    """Number of nodes, by operator."""
    nodes: int
    parameters: int
    macs: int | None
    """Multiply-adds for one input; null: not known."""
    size_bytes: int = 0


class SkippedSample(_Stored):
    name: str
    reason: str


class SampleFacts(_Stored):
    samples: int
    skipped: list[SkippedSample]
    kinds: dict[str, int]
    """Number of samples, by kind: image, array, …"""
    ignored: list[str] = []
    """The first files that are no samples."""
    labeled: int = 0
    """How many samples have labels."""


class WarningEntry(_Stored):
    code: str
    message: str
    detail: JsonObject


class PreprocessCandidate(_Stored):
    preprocess: Preprocess
    summary: str
    confidence: float
    """Its probability, 0 to 1."""


class PreprocessRecognition(PreprocessCandidate):
    """The preprocessing that the model most likely expects."""

    family: str
    task: str
    """Kind of the outputs: boxes, top1, mask, keypoints, cosine, text or values; empty if it is not known."""
    is_sure: bool
    reason: str
    alternatives: list[PreprocessCandidate]
    is_taken: bool = False
    """Whether the job uses it."""


class AppliedPrediction(_Stored):
    """The prediction of the next action that the job applies."""

    code: str
    job_id: str
    """The job whose next action it was."""
    snr_db: float


class Intake(_Stored):
    """The result of the checks of the inputs when the job was submitted."""

    model: ModelFacts | None = None
    model_name: str = ""
    """Name of the model's file; empty if it is not known."""
    samples: SampleFacts | None = None
    warnings: list[WarningEntry] = []
    changes: list[str] = []
    """What was changed in the model, in sentences."""
    recognition: PreprocessRecognition | None = None
    prediction: AppliedPrediction | None = None
