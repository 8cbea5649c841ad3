"""The model card for a hub: what the model is, its quality and its preprocessing, from its report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

CARD = """\
---
library_name: onnx
tags:
- quantized
- npu
- modelmill{base}
---
# {title}

Converted by Modelmill from `{source}` on {date}: toolchain **{toolchain}**{chip}.

## Quality of the quantized model
{quality}

## Preprocessing
{preprocess}

## Files
{files}

## Where it comes from
Job `{job_id}`{versions}. `receipt.json`, where there is one, names every input and version by its digest.
"""
QUALITY = {
    "snr_db": ("SNR of the worst output", "dB"),
    "cosine": ("Cosine of the worst output", ""),
    "size_bytes": ("Size", "bytes"),
    "passed": ("Quality rule kept", ""),
}


def model_card(facts: Mapping[str, Any]) -> str:
    """Returns the card as Markdown.

    Args:
        facts: {job_id, name, source, created_at, toolchain, platform, preprocess, metrics, files, versions}.
    """
    chip = f", chip **{facts['platform']}**" if facts["toolchain"] == "kneron" else ""
    source = str(facts["source"])
    base = f"\nbase_model: {re.split('[:@]', source.removeprefix('hf://'))[0]}" if source.startswith("hf://") else ""
    return CARD.format(
        base=base,
        title=facts["name"] or facts["job_id"],
        source=source,
        date=str(facts["created_at"])[:10],
        toolchain=facts["toolchain"],
        chip=chip,
        quality=_build_table(("Measure", "Value"), _list_measures(facts["metrics"])),
        preprocess=_build_table(
            ("Step", "Value"), [(key, _escape_cell(value)) for key, value in facts["preprocess"].items()]
        ),
        files="\n".join(f"- `{name}`" for name in facts["files"]),
        job_id=facts["job_id"],
        versions="".join(f", {tool} {version}" for tool, version in facts["versions"].items()),
    )


def _list_measures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in metrics.items():
        title, unit = QUALITY.get(name, (name, ""))
        rows.append((title, f"{_escape_cell(value)} {unit}".strip()))
    return rows or [("not measured", "–")]


def _escape_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_escape_cell, value))
    return "–" if value is None else str(value).replace("|", "\\|")


def _build_table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {first} | {second} |" for first, second in (head, ("---", "---"), *rows)]
    return "\n".join(lines)
