"""A resource as a tidy YAML text, which reads back as the same resource. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from app.joint_inference.model.resource import Service
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_yaml import PlainDumper


class _Dumper(PlainDumper):
    """Keeps the quotes of values of parameters, since they are texts."""


def _represent_text(dumper: Any, text: str) -> Any:
    is_plain = text.isprintable() and bool(text) and text[0].isalpha() and text.lower() not in _READ_AS_OTHER
    is_plain = is_plain and not any(mark in text for mark in (": ", " #")) and not text.endswith(":")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_READ_AS_OTHER = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_Dumper.add_representer(str, _represent_text)


def to_yaml(resource: Any) -> str:
    return str(yaml.dump(resource, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def editable(service: Service) -> JsonObject:
    """What its user may change, without what changes by itself."""
    whole = service.to_resource()
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: whole["metadata"][key] for key in kept if key in whole["metadata"]}
    return {"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": metadata, "spec": whole["spec"]}
