"""A spec as a tidy YAML text, which reads back as the same spec."""

from __future__ import annotations

from typing import Any

import yaml

from app.training.spec.fields import TaskSpec
from app.training.spec.plain_yaml import FLOAT


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML carries no types
    """Puts into quotes what would be read as something else; repeats what an anchor would name."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None if text.isprintable() else '"'  # in other quotes PyYAML loses line breaks such as U+0085
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))


def write_spec(spec: TaskSpec) -> str:
    """Fields in the order of their declaration; those at their default are left out."""
    fields = spec.model_dump(mode="json", exclude_defaults=True)
    return str(yaml.dump(fields, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
