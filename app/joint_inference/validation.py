"""Validates a JointInferenceService, in the same way for YAML, forms, REST, kubectl and the operator.

The result conforms to the CRD's schema and the rules of Kubernetes' metadata. Unknown fields are dropped, as by an API
server. The controller checks whether models and nodes exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from app.joint_inference import metadata
from app.joint_inference.model.crd import SPEC_SCHEMA, STATUS_SCHEMA
from app.joint_inference.model.resource import API_VERSION, KIND
from app.joint_inference.model.rollout import size_of
from app.joint_inference.problems import Problem, path_of, refuse, shorten_value
from app.joint_inference.sedna import ignored_parameters, read_spelling
from app.kit.text.json_values import JsonObject
from app.kit.text.labels import BadLabels, check_labels

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_DEPTH = 64
MAX_TEXT = 32 * 1024
MAX_PARAMETERS = 500
MAX_WAVES = 20
MAX_COUNT = 1_000_000

_SCHEMAS = {"spec": SPEC_SCHEMA, "status": STATUS_SCHEMA}
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
_TYPE_NAMES = {"object": "an object", "array": "a list", "string": "a text", "integer": "a whole number"}
_WORKER_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._]{0,251}[A-Za-z0-9])?")
_NAMED = (("model", "name"), ("nodeName",), ("hardExampleAlgorithm", "name"))
"""What names something of this installation, and so must not be empty."""


def validate(resource: Any, *, namespace: str | None = None) -> JsonObject:
    """apiVersion, kind, metadata {name, namespace, labels?, annotations?, resourceVersion?, uid?} and spec.

    resource: any JSON value. namespace: that of the path, where it must agree. The status is not looked at. What this
    returned may be given to it again. The only error is InvalidResource.
    """
    return _examine(resource, namespace)[0]


def warnings_of(resource: Any) -> list[str]:
    """The fields that `validated` leaves out, as Kubernetes' warnings name them: spec.edgeWorker.replicas"""
    return _examine(resource, None)[1]


def advice(resource: Any) -> list[str]:
    """Returns what of a resource has no effect, a sentence each.

    Raises:
        InvalidResource: The resource has problems.
    """
    unknown = [f"The field {path} is not known here and was left out." for path in warnings_of(resource)]
    return [*unknown, *ignored_parameters(validate(resource)["spec"])]


def select_known_fields(resource: Any) -> JsonObject:
    """Returns the labels, annotations and fields of spec that a resource names and a schema knows, whole or in part,
    and valid or not; what is nested too deep is refused."""
    _refuse_deep(resource, "$")
    resource, _ = read_spelling(resource)
    raw_metadata = resource.get("metadata")
    raw_metadata = raw_metadata if isinstance(raw_metadata, dict) else {}
    about = {key: raw_metadata[key] for key in ("labels", "annotations") if raw_metadata.get(key)}
    spec, _ = _prune(resource.get("spec") or {}, SPEC_SCHEMA, ("spec",))
    return {"metadata": about, "spec": spec}


def unknown_in(resource: Any) -> list[str]:
    """As warnings_of, of a resource that may name no more than some fields."""
    _, pruned = _prune(read_spelling(resource)[0].get("spec") or {}, SPEC_SCHEMA, ("spec",))
    return [path_of(path).removeprefix("$.") for path in pruned]


def validate_status(status: Any) -> JsonObject:
    """Checks a status.

    Raises:
        InvalidResource: It has problems; their paths start with $.status.
    """
    _refuse_deep(status, "$.status")
    fit, _ = _prune(status, STATUS_SCHEMA, ("status",))
    refuse([*_by_schema(fit, "status"), *_check_storable(fit, ("status",))])
    assert isinstance(fit, dict)
    return fit


def _examine(resource: Any, namespace: str | None) -> tuple[JsonObject, list[str]]:
    if not isinstance(resource, dict):
        refuse([Problem("$", f"must be an object, not {_name_kind(resource)}")])
    _refuse_deep(resource, "$")
    resource, unknown = read_spelling(resource)
    head = list(_check_head(resource))
    raw_metadata = resource.get("metadata")
    about = metadata.normalize_metadata(raw_metadata if isinstance(raw_metadata, dict) else {}, namespace)
    spec, pruned = _prune(resource.get("spec"), SPEC_SCHEMA, ("spec",))
    refuse(
        [
            *head,
            *(metadata.problems_of(about, namespace) if isinstance(raw_metadata, dict) else ()),
            *_check_storable(about, ("metadata",)),
            *(_check_spec(resource, spec)),
        ]
    )
    fit = {"apiVersion": API_VERSION, "kind": KIND, "metadata": about, "spec": spec}
    return fit, [*unknown, *(path_of(path).removeprefix("$.") for path in pruned)]


def _check_head(resource: Mapping[str, Any]) -> Iterator[Problem]:
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = resource.get(field)
        if value != expected:
            message = "is missing" if value is None else f"must be {expected!r}"
            yield Problem(f"$.{field}", message)
    raw_metadata = resource.get("metadata")
    if raw_metadata is None:
        yield Problem("$.metadata.name", "is missing")
    elif not isinstance(raw_metadata, dict):
        yield Problem("$.metadata", f"must be an object, not {_name_kind(raw_metadata)}")


def _check_spec(resource: Mapping[str, Any], spec: Any) -> Iterator[Problem]:
    if "spec" not in resource:
        yield Problem("$.spec", "is missing")
        return
    problems = [*_by_schema(spec, "spec"), *_check_storable(spec, ("spec",))]
    yield from problems
    if not problems:
        yield from _check_rules(spec)


@cache
def _make_validator(root: str) -> Any:
    """Of a library that most installations never need."""
    from jsonschema import Draft202012Validator, FormatChecker

    formats = FormatChecker(formats=())
    formats.checks("date-time", raises=ValueError)(_is_time)
    return Draft202012Validator(_SCHEMAS[root], format_checker=formats)


def _is_time(value: Any) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def _by_schema(value: Any, root: str) -> list[Problem]:
    """In the order of the paths, each place once."""
    problems: dict[str, Problem] = {}
    for error in _make_validator(root).iter_errors(value):
        for path, message in _iterate_schema_messages(error):
            location = path_of((root, *path))
            problems.setdefault(location, Problem(location, message))
    return list(problems.values())


def _iterate_schema_messages(error: ValidationError) -> Iterator[tuple[tuple[str | int, ...], str]]:
    path = tuple(error.absolute_path)
    if error.validator == "required":
        yield from (((*path, name), "is missing") for name in error.validator_value if name not in error.instance)
        return
    if error.validator == "format":
        yield path, "must be a time as 2020-11-03T08:39:22Z"
        return
    expected = _TYPE_NAMES[error.validator_value]
    hint = "; put it in quotes" if expected == "a text" and isinstance(error.instance, int | float) else ""
    yield path, f"must be {expected}, not {_name_kind(error.instance)}{hint}"


def _check_rules(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """What no schema of the requirement says, and yet cannot work."""
    for side in ("edgeWorker", "cloudWorker"):
        worker = spec[side]
        if not _WORKER_NAME.fullmatch(worker["name"]):
            yield Problem(f"$.spec.{side}.name", "must be a name: letters, digits, - _ . inside, at most 253")
        for parts in _NAMED:
            yield from _check_not_empty(worker, (side, *parts))
        yield from _check_count(worker, side)
    yield from _check_placement(spec["edgeWorker"])
    yield from _check_rollout(spec["edgeWorker"].get("rollout") or {})
    if spec["edgeWorker"]["name"] == spec["cloudWorker"]["name"]:
        yield Problem("$.spec.cloudWorker.name", "must differ from that of the edge worker")


def _check_placement(worker: Mapping[str, Any]) -> Iterator[Problem]:
    """A node's name, or the labels of nodes."""
    at = "$.spec.edgeWorker"
    if "nodeSelector" not in worker:
        if "nodeName" not in worker:
            yield Problem(f"{at}.nodeName", "is missing")
        return
    selector = worker["nodeSelector"]
    if "nodeName" in worker:
        yield Problem(f"{at}.nodeSelector", "cannot stand beside nodeName")
    elif not selector:
        yield Problem(f"{at}.nodeSelector", "must name at least one label")
    else:
        try:
            check_labels(selector)
        except BadLabels as error:
            yield Problem(f"{at}.nodeSelector", error.message)


def _check_rollout(rollout: Mapping[str, Any]) -> Iterator[Problem]:
    at = "$.spec.edgeWorker.rollout"
    waves = rollout.get("waves", ())
    if len(waves) > MAX_WAVES:
        yield Problem(f"{at}.waves", f"may be {MAX_WAVES} at most")
    for place, wave in enumerate(waves):
        try:
            size_of(wave, 1)
        except ValueError:
            yield Problem(f"{at}.waves[{place}]", "must be a number of nodes as '2', or a share as '10%'")
    for key in ("soakSeconds", "minPictures", "maxErrors"):
        if not 0 <= rollout.get(key, 0) <= MAX_COUNT:
            yield Problem(f"{at}.{key}", f"must be from 0 to {MAX_COUNT}")
    for key, most in (("maxLatencyRatio", 1000.0), ("minAgreement", 1.0)):
        if key in rollout and not _is_number_up_to(rollout[key], most):
            yield Problem(f"{at}.{key}", f"must be a number from 0 to {most:g}, in quotes")


def _is_number_up_to(text: str, most: float) -> bool:
    try:
        return 0 <= float(text) <= most
    except ValueError:
        return False


def _check_not_empty(worker: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Problem]:
    value: Any = worker
    for part in path[1:]:
        value = value.get(part, {})
    if isinstance(value, str) and not value.strip():
        yield Problem(path_of(("spec", *path)), "must not be empty")


def _check_count(worker: Mapping[str, Any], side: str) -> Iterator[Problem]:
    for part in ("workerSpec", "hardExampleAlgorithm"):
        if len(worker.get(part, {}).get("parameters", ())) > MAX_PARAMETERS:
            yield Problem(f"$.spec.{side}.{part}.parameters", f"may be {MAX_PARAMETERS} at most")


Path = tuple[str | int, ...]


def _prune(value: Any, schema: Mapping[str, Any], path: Path) -> tuple[Any, list[Path]]:
    """Without the fields that the schema does not know, and their paths."""
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        left_out: list[Path] = [(*path, key) for key in value if key not in properties]
        values = {}
        for key in value.keys() & properties.keys():
            values[key], below = _prune(value[key], properties[key], (*path, key))
            left_out += below
        return {key: values[key] for key in value if key in values}, left_out
    if isinstance(value, list) and "items" in schema:
        pairs = [_prune(item, schema["items"], (*path, at)) for at, item in enumerate(value)]
        return [item for item, _ in pairs], [location for _, below in pairs for location in below]
    return value, []


def _check_storable(value: Any, path: Path) -> Iterator[Problem]:
    """Texts that no database and no environment takes, or that are far too long."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _check_storable(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _check_storable(item, (*path, at))
    elif isinstance(value, str):
        if "\0" in value or value != value.encode("utf-8", "replace").decode():
            yield Problem(path_of(path), "has a character that no text may have")
        elif len(value) > MAX_TEXT and path[0] == "spec":
            yield Problem(path_of(path), f"may have {MAX_TEXT} characters")


def _refuse_deep(value: Any, at: str) -> None:
    """Without recursion: a JSON text may be nested as deep as it likes."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for parent in level for item in _iterate_inside(parent)]
        if not level:
            return
    refuse([Problem(at, f"is nested more than {MAX_DEPTH} deep")])


def _iterate_inside(value: Any) -> Iterator[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))


def _name_kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), shorten_value(type(value).__name__))
