"""Jobs side by side: the options in which they differ, and what was measured of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """Lists have one value a job, in the order of the jobs; None where a job has none."""

    options: dict[str, list[Any]]
    """Those that differ, by their path: `quantization.method`."""
    measures: dict[str, list[Any]]
    """Of the quantized model beside the original: `snr_db`, `cosine`, `passed`, …"""
    names: list[str]
    """Of the jobs; the beginning of its id for one without a name."""

    def _repr_html_(self) -> str:
        rows = [*self.options.items(), *self.measures.items()]
        jobs = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        cells = "".join(f"<tr><th>{escape(name)}</th>{_cells(values)}</tr>" for name, values in rows)
        return f"<table><tr><th></th>{jobs}</tr>{cells}</table>"


def compare_records(records: Sequence[Mapping[str, Any]]) -> Comparison:
    """Of jobs, as the service tells them."""
    options = _by_name([_flat(record.get("options") or {}) for record in records])
    measures = [((record.get("stages") or {}).get("bie") or {}).get("summary") or {} for record in records]
    return Comparison(
        {name: values for name, values in options.items() if any(value != values[0] for value in values)},
        _by_name(measures),
        [str(record.get("name") or record["job_id"][:8]) for record in records],
    )


def _by_name(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = sorted({name for table in tables for name in table})
    return {name: [table.get(name) for table in tables] for name in names}


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"preprocess.color": "RGB", …}."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value})
    return flat


def _cells(values: Sequence[Any]) -> str:
    return "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in values)
