"""The metadata of a resource, by the rules of Kubernetes: names, labels, annotations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.joint_inference.problems import Problem, path_of, shorten_value
from app.kit.text.json_values import JsonObject
from app.kit.text.labels import DNS_LABEL, MAX_NAME, SUBDOMAIN, is_key, is_name, is_value
from app.kit.text.labels import MAX_VALUE as MAX_LABEL
from app.kit.text.labels import MOST as MAX_LABELS

DEFAULT_NAMESPACE = "default"
MAX_ANNOTATIONS = 256 * 1024
NAMESPACE_PATTERN, NAME_PATTERN = f"^{DNS_LABEL}$", f"^{SUBDOMAIN}$"
_DNS_LABEL = re.compile(DNS_LABEL)
_ALIKE = "of small letters, digits and -, with a letter or digit at both ends"


def is_namespace(text: str) -> bool:
    """Returns whether it is a label of RFC 1123."""
    return _DNS_LABEL.fullmatch(text) is not None


def normalize_metadata(metadata: Mapping[str, Any], namespace: str | None) -> JsonObject:
    """Returns the part of the metadata that is stored, or that says which version was seen.

    Args:
        namespace: that of the path, if there is one.
    """
    value = metadata.get("namespace")
    where = (namespace or DEFAULT_NAMESPACE) if value in (None, "") else value
    fields: JsonObject = {"name": metadata.get("name"), "namespace": where}
    for key in ("labels", "annotations", "resourceVersion", "uid"):
        if metadata.get(key) is not None:
            fields[key] = metadata[key]
    return fields


def problems_of(metadata: Mapping[str, Any], namespace: str | None) -> Iterator[Problem]:
    """Yields the problems of normalized metadata."""
    yield from _name(metadata["name"])
    value = metadata["namespace"]
    if not isinstance(value, str) or not is_namespace(value):
        yield Problem("$.metadata.namespace", f"must be at most {MAX_LABEL} characters, {_ALIKE}")
    elif namespace is not None and value != namespace:
        yield Problem("$.metadata.namespace", f"is {value!r}, but the path says {shorten_value(namespace)!r}")
    for key in ("resourceVersion", "uid"):
        if not isinstance(metadata.get(key, ""), str):
            yield Problem(f"$.metadata.{key}", "must be a text")
    yield from _check_labels(metadata.get("labels", {}))
    yield from _check_annotations(metadata.get("annotations", {}))


def _name(name: Any) -> Iterator[Problem]:
    if name is None or name == "":
        yield Problem("$.metadata.name", "is missing")
    elif not isinstance(name, str):
        yield Problem("$.metadata.name", "must be a text")
    elif not is_name(name):
        yield Problem("$.metadata.name", f"must be at most {MAX_NAME} characters: parts {_ALIKE}, with dots between")


def _check_labels(labels: Any) -> Iterator[Problem]:
    yield from _map_of_texts(labels, "labels")
    if isinstance(labels, dict):
        if len(labels) > MAX_LABELS:
            yield Problem("$.metadata.labels", f"may be {MAX_LABELS} at most")
        for key, value in labels.items():
            if isinstance(value, str) and not is_value(value):
                yield Problem(
                    path_of(("metadata", "labels", key)), f"is no label's value: at most {MAX_LABEL} of A-z 0-9 - _ ."
                )


def _check_annotations(annotations: Any) -> Iterator[Problem]:
    yield from _map_of_texts(annotations, "annotations")
    if isinstance(annotations, dict):
        size = sum(len(key) + len(value) for key, value in annotations.items() if isinstance(value, str))
        if size > MAX_ANNOTATIONS:
            yield Problem("$.metadata.annotations", f"may have {MAX_ANNOTATIONS} characters together")


def _map_of_texts(entries: Any, field: str) -> Iterator[Problem]:
    if not isinstance(entries, dict):
        yield Problem(f"$.metadata.{field}", "must be keys with texts")
        return
    for key, value in entries.items():
        if not is_key(key):
            yield Problem(
                path_of(("metadata", field, key)), "is no key: at most 63 of A-z 0-9 - _ . after an optional domain/"
            )
        if not isinstance(value, str):
            yield Problem(path_of(("metadata", field, key)), "must be a text; put it in quotes")
