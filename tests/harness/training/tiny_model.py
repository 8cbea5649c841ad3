"""A language model of a few thousand weights and the data that verl trains it with, both in the forms of Hugging Face.

    PYTHONPATH=<verl's packages> python -m tests.harness.training.tiny_model FOLDER

writes FOLDER/model, FOLDER/prompts.parquet (ppo, grpo) and FOLDER/messages.parquet (sft).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROWS = 64
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(folder: Path) -> None:
    _write_model(folder / "model")
    _write_table(folder / "prompts.parquet", [_prompt(number) for number in range(ROWS)])
    _write_table(folder / "messages.parquet", [{"messages": _messages(number)} for number in range(ROWS)])


def _write_model(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([_messages(1)[0]["content"]], trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=special[2], pad_token=special[0], chat_template=TEMPLATE
    )
    wrapped.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        eos_token_id=wrapped.eos_token_id,
        pad_token_id=wrapped.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def _messages(number: int) -> list[dict[str, str]]:
    question = {"role": "user", "content": f"How many apples are {number} apples and one more?"}
    return [question, {"role": "assistant", "content": f"#### {number + 1}"}]


def _prompt(number: int) -> dict[str, Any]:
    return {
        "data_source": "openai/gsm8k",
        "prompt": _messages(number)[:1],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"index": number},
    }


def _write_table(file: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), file)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
