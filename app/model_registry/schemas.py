"""What the JSON API of models takes and gives, and what its forms send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from app.conversion.options import Preprocess
from app.inference.installed_decoders import check_installed, list_installed_decoders
from app.inference.model_card import Format
from app.inference.prediction import MOST_DECODER_SOURCE, Decoder
from app.kit.access import MOST
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_json
from app.kit.web.described_type import DescribedType
from app.kit.web.http import answer_of
from app.kit.web.strict import TEXT, Strict
from app.model_registry.model import MAX_LABEL, MAX_LABELS, MAX_NAME, MAX_NOTE, Model, NewVersion, labels_of

MODELS = "/api/v2/models"
NAMED = f"{MODELS}/named"
FILE = f"{MODELS}/file"
VERSIONS = f"{MODELS}/versions"
ACCESS = f"{MODELS}/access"
SHARED = f"{MODELS}/shared"
DECODER = f"{MODELS}/decoder"
TAGS = f"{MODELS}/tags/{{tag}}"
PAGE = "/ui/models/named"
MAX_CURSOR = 300
MAX_PIN = MAX_NAME + 33
MAX_LABELS_TEXT = MAX_LABELS * (MAX_LABEL + 2)
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
InstalledDecoder = Annotated[
    Decoder, AfterValidator(check_installed), WithJsonSchema({"type": "string", "enum": [*list_installed_decoders()]})
]
Labels = Annotated[list[Annotated[str, Field(max_length=MAX_LABEL)]], Field(max_length=MAX_LABELS)]


class ModelsQuery(Strict):
    q: Annotated[str, Field(max_length=MAX_NAME, pattern=TEXT)] = ""
    """Text in the name."""
    cursor: Annotated[str, Field(max_length=MAX_CURSOR, pattern=TEXT)] | None = None
    """next_cursor of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class NamedQuery(Strict):
    name: Annotated[str, Field(min_length=1, max_length=MAX_PIN)]
    """Name of the model, with or without a version: faces, faces@3, faces@stable. It may contain slashes, as in
    faces/out.nef."""


class OwnDecoder(Strict):
    """A decoder for the outputs of a model, which is stored in its file and run in a sandbox beside the model."""

    source: Annotated[str, Field(max_length=MOST_DECODER_SOURCE)]
    """A Python file with a function `decode(outputs, size, floor)`."""
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    """Note on the version."""


class TagChange(Strict):
    version: Annotated[int, Field(ge=1, le=10**9)]


class AllowedUsers(Strict):
    """Names of users, and of groups as @group, who may use the model beside its owner; null: everybody."""

    allowed: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=MOST)] | None


class _Versioned(Strict):
    new_version: bool = False
    """Whether it becomes the next version if there is a model of this name."""
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    """Note about this version."""

    @property
    def versioning(self) -> NewVersion:
        return NewVersion(self.new_version, self.note.strip())


class NewModel(_Versioned):
    """A model of a conversion job that has completed."""

    name: Name
    job_id: Annotated[str, Field(max_length=64)]
    artifact: Format = Format.NEF
    decoder: InstalledDecoder = Decoder.AUTO
    """Decoder of its outputs; auto: recognized from their names and shapes."""
    labels: Labels = Field(default_factory=list)
    """Names of the classes, by index."""


class ModelUpload(_Versioned):
    """The text fields of a multipart body, beside its file `model`: an ONNX that its user uploads."""

    name: Name
    decoder: InstalledDecoder = Decoder.AUTO
    labels: Annotated[str, Field(max_length=MAX_LABELS_TEXT)] = ""
    """Names of the classes, one in each line."""
    preprocess: Preprocess | None = None
    """As options.preprocess of a conversion, as JSON; without it: what the family of its decoder is used to."""

    @field_validator("preprocess", mode="before")
    @classmethod
    def _read(cls, text: Any) -> Any:
        return read_json(text) if isinstance(text, str) and text.strip() else None

    @property
    def listed_labels(self) -> list[str]:
        return labels_of(self.labels)


class TensorAnswer(BaseModel):
    name: str
    shape: list[int | str]
    """A text where the size is not fixed, "?" if it has no name."""
    dtype: str

    @field_validator("shape", mode="before")
    @classmethod
    def _select(cls, sides: list[int | str | None]) -> list[int | str]:
        return ["?" if side is None else side for side in sides]


class ModelLinks(BaseModel):
    model: str
    page: str
    file: str
    job: str | None


class ModelMetrics(BaseModel):
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    snr_db: float | None = None
    """SNR of the worst output of its conversion, in dB."""
    verdict: str = ""
    """Verdict of its conversion: PASSED or BELOW_RULE."""


class ModelAnswer(BaseModel):
    name: str
    version: int
    note: str
    metrics: Annotated[JsonObject, DescribedType(ModelMetrics)]
    """What is known of its quality: snr_db and verdict of its conversion."""
    format: Format
    toolchain: str
    """Which made it, host or kneron; empty for one that its user uploaded."""
    created_at: str
    job_id: str | None
    """Of the conversion that it is from; null when its user uploaded it."""
    size_bytes: int
    sha256: str
    twin_size_bytes: int
    twin_sha256: str
    """Of the ONNX that a BIE or NEF was made of, for where that cannot run itself; empty without one."""
    decoder: str
    labels: list[str]
    preprocess: Annotated[JsonObject, DescribedType(Preprocess)]
    inputs: list[TensorAnswer]
    outputs: list[TensorAnswer]
    links: ModelLinks


class VersionAnswer(ModelAnswer):
    tags: list[str]
    """Those that mean it."""


class VersionsAnswer(BaseModel):
    name: str
    newest: int
    """The version that the plain name means."""
    tags: dict[str, int]
    versions: list[VersionAnswer]
    """The newest first."""


class ModelsAnswer(BaseModel):
    models: list[ModelAnswer]
    next_cursor: str | None


class SharedAnswer(BaseModel):
    name: str
    """As services and stages refer to it: owner/name."""
    owner: str
    version: int
    """The newest."""
    tags: list[str]
    created_at: str


class SharedModelsAnswer(BaseModel):
    models: list[SharedAnswer]


def address(path: str, name: str) -> str:
    return f"{path}?{urlencode({'name': name})}"


def model_answer(model: Model) -> ModelAnswer:
    return answer_of(ModelAnswer, model, model.card, **_collect_others(model, model.name))


def versions_answer(versions: Sequence[Model], tags: Mapping[str, int]) -> VersionsAnswer:
    """versions: the newest first, at least one."""
    answers = [
        answer_of(
            VersionAnswer,
            model,
            model.card,
            **_collect_others(model, model.pin),
            tags=[tag for tag, version in tags.items() if version == model.version],
        )
        for model in versions
    ]
    return VersionsAnswer(name=versions[0].name, newest=versions[0].version, tags=dict(tags), versions=answers)


def _collect_others(model: Model, name: str) -> JsonObject:
    """name: under which the links find it."""
    return {
        "name": model.name,
        "job_id": model.job_id or None,
        "inputs": model.facts.get("inputs") or [],
        "outputs": model.facts.get("outputs") or [],
        "links": ModelLinks(
            model=address(NAMED, name),
            page=address(PAGE, name),
            file=address(FILE, name),
            job=f"/jobs/{model.job_id}" if model.job_id else None,
        ),
    }
