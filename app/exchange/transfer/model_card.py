"""The model card for a hub: what the model is, its quality and its preprocessing, from its report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from app.kit.text.json_values import JsonObject

CARD = """\
---
{metadata}---
# {title}

Converted by Modelmill{source} on {date}: toolchain **{toolchain}**{chip}.

## Quality of the quantized model
{quality}

## Preprocessing
{preprocess}

## Files
{files}

## Where it comes from
Job `{job_id}`{versions}.{receipt}
"""
RECEIPT = " `receipt.json` names every input and version by its digest."
AUTO_COLOR = "RGB, or GRAY for one channel"
QUALITY = {
    "snr_db": ("SNR of the worst output", "dB"),
    "cosine": ("Cosine of the worst output", ""),
    "passed": ("Required quality reached", ""),
    "samples": ("Samples judged", ""),
    "latency_ms": ("Latency on the machine that converted it", "ms"),
    "fps": ("Frames per second, estimated", ""),
}
FRONT_MATTER = re.compile(r"\A\s*---[ \t]*$(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
PIPELINE_TAGS = {
    "top1": "image-classification",
    "boxes": "object-detection",
    "mask": "image-segmentation",
    "keypoints": "keypoint-detection",
}
"""The hub's name of a task, by its name here."""


def model_card(facts: Mapping[str, Any], former: str = "") -> str:
    """Returns the card as Markdown; its metadata are those of https://github.com/huggingface/hub-docs/blob/main/modelcard.md.

    Args:
        facts: {job_id, name, source, task, created_at, toolchain, platform, preprocess, metrics, files, versions},
            where files has the bytes of each by name.
        former: the card that this one replaces; its metadata stay as they are, and those that it does not have are
            added.
    """
    source = str(facts["source"])
    return CARD.format(
        metadata=_merge_metadata(_build_metadata(facts), former),
        title=facts["name"] or facts["job_id"],
        source=f" from `{source}`" if source else "",
        date=str(facts["created_at"])[:10],
        toolchain=facts["toolchain"],
        chip=f", chip **{facts['platform']}**" if facts["toolchain"] == "kneron" else "",
        quality=_build_table(("Measure", "Value"), _list_measures(facts["metrics"])),
        preprocess=_build_table(("Step", "Value"), _list_steps(facts["preprocess"])),
        files="\n".join(f"- `{name}`, {size:,} bytes" for name, size in facts["files"].items()),
        job_id=facts["job_id"],
        versions="".join(f", {tool} {version}" for tool, version in facts["versions"].items()),
        receipt=RECEIPT if "receipt.json" in facts["files"] else "",
    )


def _build_metadata(facts: Mapping[str, Any]) -> JsonObject:
    metadata: JsonObject = {"library_name": "onnx", "tags": ["quantized", "npu", "modelmill"]}
    if facts["task"] in PIPELINE_TAGS:
        metadata["pipeline_tag"] = PIPELINE_TAGS[facts["task"]]
    scheme, _, place = str(facts["source"]).partition("://")
    if scheme == "hf":
        metadata |= {"base_model": re.split("[:@]", place)[0], "base_model_relation": "quantized"}
    return metadata


def _merge_metadata(metadata: JsonObject, former: str) -> str:
    """Returns the metadata as YAML, after the text of those in the former card: as somebody has written it."""
    front_matter = FRONT_MATTER.match(former.replace("\r\n", "\n"))
    kept = front_matter[1].lstrip("\n") if front_matter else ""
    known = _read(kept)
    if not isinstance(known, dict):
        return _dump(metadata)
    missing = {name: value for name, value in metadata.items() if name not in known}
    merged = kept + _dump(missing)
    return merged if _read(merged) == known | missing else _dump(missing | known)  # in braces, nothing can follow


def _read(text: str) -> Any:
    """Returns what the YAML says; None if it is none."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None


def _dump(metadata: JsonObject) -> str:
    return yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True) if metadata else ""


def _list_measures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (title, f"{_escape_cell(metrics[name])} {unit}".strip())
        for name, (title, unit) in QUALITY.items()
        if name in metrics
    ]
    return rows or [("not measured", "–")]


def _list_steps(preprocess: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, AUTO_COLOR if value == "auto" else _escape_cell(value)) for key, value in preprocess.items()]


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
