"""A model by name: what is kept of it, how it may be called, and how a name points into a conversion job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.inference.prediction import Format, ModelCard
from app.model_registry.errors import BadLabels, BadModelName, ModelNotFound

MAX_NAME = 200
MAX_LABELS = 1000
MAX_LABEL = 100
FACTS = ("inputs", "outputs", "parameters", "macs")


@dataclass(frozen=True)
class Model:
    owner: str
    card: ModelCard
    created_at: str
    job_id: str = ""
    """Of the conversion that it is from; empty when its user uploaded it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """{"inputs": [{name, shape, dtype}], "outputs": […], "parameters", "macs"}, where known."""

    @property
    def name(self) -> str:
        return self.card.name


def file_of(file_format: Format) -> str:
    """Name of the model of this format among the artifacts of a job."""
    return f"out.{file_format.value}"


def is_name(name: str) -> bool:
    """May a model be called so at all? Names that point into a job hold a slash, chosen ones do not."""
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


def checked_name(name: str) -> str:
    """A name that its user chose, without the spaces around it. Raises BadModelName."""
    stripped = name.strip()
    if is_name(stripped) and "/" not in stripped:
        return stripped
    raise BadModelName(
        f"{name[:MAX_NAME]!r} cannot be the name of a model.",
        hint=f"A name has 1 to {MAX_NAME} printable characters and no slash.",
    )


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Names of classes by index. Raises BadLabels."""
    if len(labels) > MAX_LABELS:
        raise BadLabels(f"There are {len(labels)} labels; a model may have {MAX_LABELS}.", hint="Leave them out.")
    stripped = tuple(label.strip() for label in labels)
    for index, label in enumerate(stripped):
        if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
            raise BadLabels(
                f"Label {index} is {label[:MAX_LABEL]!r}.",
                hint=f"A label has 1 to {MAX_LABEL} printable characters.",
            )
    return stripped


def labels_of(text: str) -> list[str]:
    """One in each line, without the empty lines before the first and after the last."""
    return text.strip().splitlines()


def pins(name: str) -> Iterator[tuple[str, Format]]:
    """(name or id of a job, what of it) that a name may mean, likeliest first. Without a suffix it is the NEF."""
    for file_format in Format:
        job, slash, _ = name.rpartition("/")
        if slash and job and name.endswith(f"/{file_of(file_format)}"):
            yield job, file_format
    yield name, Format.NEF


def no_such_model(name: str) -> ModelNotFound:
    return ModelNotFound(f"There is no model {name[:MAX_NAME]!r}.", hint="Those there are: GET /api/v2/models.")
