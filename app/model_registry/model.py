"""A model by name and version: its data, the rules for names, and what a name refers to. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.inference.model_card import Format, ModelCard
from app.kit.access import Member
from app.model_registry.errors import BadLabels, BadModelName, BadTag, ModelNotFound

MAX_NAME = 200
MAX_NOTE = 500
AT = "@"
"""Separates a name from a version or tag: faces@3, faces@stable."""
TAG = re.compile(r"[a-z][a-z0-9._-]{0,31}")
VERSION = re.compile(r"[1-9][0-9]{0,8}")
MAX_LABELS = 1000
MAX_LABEL = 100
FACTS = ("inputs", "outputs", "parameters", "macs")


@dataclass(frozen=True)
class Model:
    owner: str
    card: ModelCard
    created_at: str
    job_id: str = ""
    """Id of its conversion job; empty for an uploaded model."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """{"inputs": [{name, shape, dtype}], "outputs": […], "parameters", "macs"}, as far as known."""
    version: int = 1
    """Number among the versions of its name, from 1. Numbers are not reused."""
    note: str = ""
    """The user's note on this version."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Its quality: snr_db, verdict; empty if unknown."""

    @property
    def name(self) -> str:
        return self.card.name if self.version == 1 else self.card.name.removesuffix(f"{AT}{self.version}")

    @property
    def pin(self) -> str:
        """The name of exactly this version."""
        return f"{self.name}{AT}{self.version}"

    def as_version(self, version: int) -> Model:
        """Returns this model as another version of its name. Since programs report the name on its card, that includes
        the version, except for the first."""
        name = self.name if version == 1 else f"{self.name}{AT}{version}"
        return replace(self, version=version, card=replace(self.card, name=name))


@dataclass(frozen=True)
class NewVersion:
    """Whether a new model is the next version of an existing name."""

    is_next: bool = False
    """True: it becomes the next version if the name exists. False: the name has to be new."""
    note: str = ""
    """The user's note on this version."""


FIRST = NewVersion()


@dataclass(frozen=True)
class ModelUse:
    """What the removal of a version, a tag or a whole model would affect."""

    owner: str
    names: frozenset[str]
    """Names that refer to it now, as written in services and stages."""
    files: frozenset[str] = frozenset()
    """sha256 of the models, without their twins."""
    admits: Callable[[str], bool] = field(default=lambda _: False, compare=False)
    """Whether a user may use the model of another owner."""

    def has(self, user: str, *names: str) -> bool:
        """Returns whether one of these names, as this user writes them, refers to it now."""
        is_own = user == self.owner
        if is_own and not self.names.isdisjoint(names):
            return True
        shared = {build_shared_name(self.owner, name) for name in self.names}
        return not shared.isdisjoint(names) and (is_own or self.admits(user))


@dataclass(frozen=True)
class Usage:
    """Something that uses a model."""

    kind: str
    """service, calibration, video job or stage."""
    name: str
    """As users know it: a service as namespace/name."""
    owner: str

    def words(self, reader: Member) -> str:
        """What it is, for this reader: what is another user's has no name, unless an administrator reads."""
        if reader.name != self.owner and not reader.is_admin:
            return f"a {self.kind} of another user"
        named = f"{self.kind} of {self.name}" if self.kind == "calibration" else f"{self.kind} {self.name}"
        return named if reader.name == self.owner else f"{named} of {self.owner}"


@dataclass(frozen=True)
class SharedModel:
    """A model of another owner as those see it who may use it."""

    owner: str
    name: str
    """As they write it: owner/name."""
    version: int
    """The newest."""
    tags: tuple[str, ...]
    created_at: str


def file_of(file_format: Format) -> str:
    """Returns the artifact name of the model in this format."""
    return f"out.{file_format.value}"


def is_name(name: str) -> bool:
    """Returns whether a model can have this name. Names that refer to a job contain a slash, chosen ones do not."""
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


def check_name(name: str) -> str:
    """Returns a name chosen by a user, without surrounding spaces.

    Raises:
        BadModelName: It is not valid.
    """
    stripped = name.strip()
    if is_name(stripped) and "/" not in stripped and AT not in stripped:
        return stripped
    raise BadModelName(
        f"{name[:MAX_NAME]!r} cannot be the name of a model.",
        hint=f"A name has 1 to {MAX_NAME} printable characters, no slash and no @.",
    )


def check_tag(tag: str) -> str:
    """Returns the tag.

    Raises:
        BadTag: It is not valid.
    """
    if TAG.fullmatch(tag):
        return tag
    raise BadTag(
        f"{tag[:MAX_NAME]!r} cannot be a tag.",
        hint="A tag has 1 to 32 of a-z, 0-9, '.', '_' and '-', and begins with a letter, as stable.",
    )


def split_name(name: str) -> tuple[str, str]:
    """Splits faces@3 into faces and 3; a plain name into itself and an empty text."""
    base, at, selector = name.rpartition(AT)
    is_pin = bool(base) and bool(at) and bool(VERSION.fullmatch(selector) or TAG.fullmatch(selector))
    return (base, selector) if is_pin else (name, "")


def build_shared_name(owner: str, name: str) -> str:
    """Returns the name under which others refer to a model."""
    return f"{owner}/{name}"


def split_shared(name: str) -> tuple[str, str]:
    """Splits alice/faces@3 into alice and faces@3; a name without a slash into two empty texts."""
    owner, slash, base = name.partition("/")
    return (owner, base) if slash else ("", "")


def follows(name: str, owner: str, model: str, *, by: str) -> bool:
    """Returns whether a name, as the user `by` writes it, is one of this model, whichever version it refers to.

    Args:
        owner: of the model.
        model: its plain name.
    """
    known = {build_shared_name(owner, model), *([model] if by == owner else [])}
    return not known.isdisjoint((name, split_name(name)[0]))


def check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of classes by index.

    Raises:
        BadLabels: They are not valid.
    """
    if len(labels) > MAX_LABELS:
        raise BadLabels(f"There are {len(labels)} labels; a model may have {MAX_LABELS}.", hint="Leave them out.")
    stripped = tuple(label.strip() for label in labels)
    for index, label in enumerate(stripped):
        if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
            raise BadLabels(
                f"Label {index} is {label[:MAX_LABEL]!r}.", hint=f"A label has 1 to {MAX_LABEL} printable characters."
            )
    return stripped


def labels_of(text: str) -> list[str]:
    """Returns one name for each line, without empty lines at the start and the end."""
    return text.strip().splitlines()


def pins(name: str) -> Iterator[tuple[str, Format]]:
    """Yields (name or id of a job, format) that a name may refer to, the most likely first. Without a suffix the format
    is NEF."""
    for file_format in Format:
        job, slash, _ = name.rpartition("/")
        if slash and job and name.endswith(f"/{file_of(file_format)}"):
            yield job, file_format
    yield name, Format.NEF


def no_such_model(name: str) -> ModelNotFound:
    return ModelNotFound(f"There is no model {name[:MAX_NAME]!r}.", hint="Those there are: GET /api/v2/models.")
