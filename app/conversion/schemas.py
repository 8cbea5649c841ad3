"""The JSON that goes in and out of the conversion API. Extra keys of the record are allowed; those named here hold."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from app.conversion.model import StageState, Status, Verdict
from app.conversion.object_keys import UUID
from app.conversion.options import Chip, Options, ToolchainName
from app.conversion.record_schemas import Intake, StageSummary
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import TEXT, Strict

Name = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=TEXT)]
Tag = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50, pattern=TEXT)]
Tags = Annotated[tuple[Tag, ...], Field(max_length=20), AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))]
Key = Annotated[str, StringConstraints(min_length=1, max_length=512)]
CURSOR = r"^[0-9]{1,20}(\.[0-9]{1,20})?$"
MODEL_FILES: dict[str, JsonObject] = {
    "model": {
        "type": "string",
        "format": "binary",
        "description": "an ONNX file, or a ZIP file of one and the files with its weights",
    },
    "weights": {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "description": "files with the weights of the model, such as model.onnx.data",
    },
}
"""Parts of a form by which a model is sent, as JSON schemas."""


class NewJob(Strict):
    """Body of POST /jobs."""

    model_key: Key
    quant_key: Key
    name: Name = ""
    tags: Tags = ()
    options: Options = Options()
    no_cache: bool = False
    """Whether every stage is run, even if its result is in the cache."""


class JobChange(Strict):
    """Body of PATCH /jobs/{job_id} and /archive/{job_id}: fields that are not given do not change."""

    name: Name | None = None
    tags: Tags | None = None
    notes: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    keep: bool | None = None
    """Whether its files are kept permanently."""


class BulkChange(Strict):
    """Body of POST /jobs/bulk."""

    verb: Literal["cancel", "delete", "tag", "keep", "unkeep"]
    """What to do with the jobs; unkeep lets their files expire again."""
    job_ids: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=64)], ...], Field(min_length=1, max_length=500)
    ]
    add_tags: Tags = ()
    """Tags to add, with the verb tag."""
    remove_tags: Tags = ()
    """Tags to remove, with the verb tag."""

    @model_validator(mode="after")
    def _check_tags(self) -> Self:
        if self.verb == "tag" and not (self.add_tags or self.remove_tags):
            raise ValueError("the verb tag needs add_tags or remove_tags")
        return self


class BulkProblem(BaseModel):
    job_id: str
    code: str
    message: str
    hint: str


class BulkAnswer(BaseModel):
    done: list[str]
    problems: list[BulkProblem]


class NewLinks(Strict):
    """Body of POST /uploads/presign: which inputs will be PUT straight to the store."""

    model: bool = True
    images: bool = True


class JobQuery(Strict):
    """Filters and paging of GET /jobs."""

    status: Status | None = None
    toolchain: ToolchainName | None = None
    platform: Chip | None = None
    owner: Annotated[str, Field(max_length=200)] | None = None
    q: Annotated[str, Field(max_length=200)] | None = None
    """Text in the id, the name or the tags."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    """next_cursor of the previous page."""


class LogQuery(Strict):
    offset: Annotated[int, Field(ge=0, le=1 << 40)] = 0


class StoredFile(BaseModel):
    field: Literal["model", "images"]
    name: str
    key: str
    size_bytes: int
    sha256: str


class UploadAnswer(BaseModel):
    upload_id: str
    model_key: str | None
    quant_key: str | None
    files: list[StoredFile]


class Link(BaseModel):
    key: str
    url: str
    method: str


class LinksAnswer(BaseModel):
    upload_id: str
    expires_at: str
    model: Link | None
    images: Link | None


class OutputKeys(BaseModel):
    onnx_key: str | None
    bie_key: str | None
    nef_key: str | None


class Failure(BaseModel):
    step: str
    reason: str
    code: str
    hint: str
    detail: JsonObject


class StageAnswer(BaseModel):
    state: StageState
    progress: Annotated[int, Field(ge=0, le=100)]
    message: str
    queued_at: str | None
    started_at: str | None
    finished_at: str | None
    worker: str | None
    summary: Annotated[JsonObject, DescribedType(StageSummary)]
    versions: dict[str, str]
    reused_from: Annotated[str | None, Field(description="id of the job whose result was reused; null if none was")]
    saved_s: Annotated[float | None, Field(description="seconds that the stage had taken in that job")]


class ArtifactAnswer(BaseModel):
    key: str
    size_bytes: int
    sha256: str


class JobAnswer(BaseModel):
    job_id: str
    created_at: str
    updated_at: str
    finished_at: str | None
    status: Status
    verdict: Annotated[
        Verdict | None, Field(description="verdict on the quality: PASSED or BELOW_RULE; null while it is not measured")
    ]
    stage: Literal["ONNX", "BIE", "NEF"]
    progress: Annotated[int, Field(ge=0, le=100)]
    output: OutputKeys
    error: Failure | None
    owner: str
    name: str
    tags: list[str]
    options: Annotated[JsonObject, DescribedType(Options)]
    stages: dict[str, StageAnswer]
    artifacts: dict[str, ArtifactAnswer]
    intake: Annotated[JsonObject, DescribedType(Intake)]
    origin: Annotated[
        str,
        Field(
            description="the URI that the model was fetched from, or task:<id> of the training task that made it; "
            "empty if it was uploaded"
        ),
    ]
    sweep_id: Annotated[str, Field(description="the sweep that submitted the job; empty if none did")]
    forecast_s: Annotated[float | None, Field(description="seconds to its end, as expected when it was submitted")]
    notes: str
    keep: Annotated[bool, Field(description="whether its files are kept permanently")]
    no_cache: Annotated[bool, Field(description="whether every stage is run, even if its result is in the cache")]
    queue_position: int | None
    is_far_over_usual_time: Annotated[
        bool,
        Field(
            description="whether the running stage takes many times as long as in other jobs, so that it may never end"
        ),
    ]


class JobsAnswer(BaseModel):
    jobs: list[JobAnswer]
    next_cursor: str | None


class NamedArtifact(ArtifactAnswer):
    name: str


class ArtifactsAnswer(BaseModel):
    artifacts: list[NamedArtifact]


class ResultsQuery(Strict):
    """Paging of GET /results."""

    limit: Annotated[int, Field(ge=1, le=100)] = 50
    cursor: Annotated[str, Field(pattern=f"^{UUID}$")] | None = None
    """next_cursor of the previous page."""


class ResultFile(BaseModel):
    name: str
    size_bytes: int


class ResultAnswer(BaseModel):
    job_id: str
    name: str
    tags: list[str]
    options: Annotated[JsonObject, DescribedType(Options)]
    created_at: str
    is_finished: Annotated[bool, Field(description="whether the NEF was made")]
    files: list[ResultFile]


class ResultsAnswer(BaseModel):
    results: list[ResultAnswer]
    next_cursor: str | None


class LinkAnswer(BaseModel):
    url: str
    expires_at: str


class Health(BaseModel):
    status: Literal["ok"]


class OfView(BaseModel):
    model_config = ConfigDict(from_attributes=True, use_attribute_docstrings=True)
