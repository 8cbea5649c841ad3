"""The model card of pushed results."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from app.exchange.transfer.model_card import model_card

FACTS: dict[str, Any] = {
    "job_id": "84b8",
    "name": "detector: 640",
    "source": "",
    "task": "",
    "created_at": "2026-11-28T09:01:43.141Z",
    "toolchain": "host",
    "platform": None,
    "preprocess": {"scale": 1.0, "mean": [0.0]},
    "metrics": {
        "snr_db": 31.5,
        "passed": True,
        "samples": 10,
        "cpu_s": 0.269,
        "wall_s": 0.267,
        "peak_bytes": 137084928,
    },
    "files": {"out.nef": 27987},
    "versions": {"onnx": "1.23.2"},
}


def split(card: str) -> tuple[dict[str, Any], str]:
    _, metadata, text = card.split("---\n", 2)
    return yaml.safe_load(metadata), text


@pytest.mark.parametrize("source", ["hf://org/detector", "hf://org/detector@v2:onnx/model.onnx"])
def test_a_model_of_the_hub_is_the_base_of_what_became_of_it(source: str) -> None:
    metadata, text = split(model_card({**FACTS, "source": source}))
    assert metadata == {
        "library_name": "onnx",
        "tags": ["quantized", "npu", "modelmill"],
        "base_model": "org/detector",
        "base_model_relation": "quantized",
    }
    assert f"Converted by Modelmill from `{source}` on 2026-11-28" in text


@pytest.mark.parametrize("source", ["", "task:mvp2-a", "https://models.example/a.onnx"])
def test_what_is_not_from_the_hub_has_no_base_there(source: str) -> None:
    metadata, text = split(model_card({**FACTS, "source": source}))
    assert "base_model" not in metadata and "base_model_relation" not in metadata
    assert (f" from `{source}`" in text) == bool(source)
    assert "# detector: 640\n" in text


def test_a_known_task_is_named_as_the_hub_names_it() -> None:
    assert split(model_card({**FACTS, "task": "boxes"}))[0]["pipeline_tag"] == "object-detection"
    assert "pipeline_tag" not in split(model_card({**FACTS, "task": "values"}))[0]


def test_quality_is_what_was_measured_of_the_model_and_not_what_measuring_took() -> None:
    _, text = split(model_card(FACTS))
    assert (
        "| SNR of the worst output | 31.5 dB |\n| Required quality reached | yes |\n| Samples judged | 10 |\n" in text
    )
    assert not any(name in text for name in ("cpu_s", "wall_s", "peak_bytes"))
    assert "- `out.nef`, 27,987 bytes" in text


def test_an_automatic_color_is_explained_and_a_receipt_is_named_only_where_there_is_one() -> None:
    facts = {**FACTS, "preprocess": {"color": "auto", "pad_value": 114}}
    card = model_card(facts)
    assert "| color | RGB, or GRAY for one channel |" in card and "receipt" not in card
    assert "`receipt.json` names" in model_card({**facts, "files": {"receipt.json": 7}})


def test_metadata_that_somebody_wrote_into_the_card_stay_as_they_are_and_what_is_missing_is_added() -> None:
    written = "license: apache-2.0  # by the legal department\nlanguage: no\ntags:\n- 工廠\n"
    card = model_card({**FACTS, "task": "boxes"}, f"---\n{written}---\n# By hand\n".replace("\n", "\r\n"))
    assert card.startswith(f"---\n{written}library_name: onnx\npipeline_tag: object-detection\n---\n# detector: 640\n")
    assert model_card({**FACTS, "task": "boxes"}, card) == card, "once"


@pytest.mark.parametrize(
    "former", ["", "# No metadata\n\n---\nlicense: mit\n---\n", "---\n---\n", "---\n- a\n---\n", "---\n: [\n---\n"]
)
def test_a_card_without_metadata_that_can_be_read_is_replaced(former: str) -> None:
    assert model_card(FACTS, former) == model_card(FACTS)


def test_metadata_in_braces_stay_too() -> None:
    metadata, _ = split(model_card(FACTS, "---\n{license: mit, tags: [own]}\n---\n"))
    assert metadata == {"library_name": "onnx", "tags": ["own"], "license": "mit"}
