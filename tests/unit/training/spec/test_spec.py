"""What a user sends becomes a spec, or an error that says where it is wrong; never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.kit.errors import TooLarge
from app.training.errors import BadSpec, UnreadableSpec
from app.training.model import Workload
from app.training.spec import MAX_SPEC_BYTES, ConvertSpec, TaskSpec, read_spec, write_spec
from app.training.spec.overrides import OURS

SCRIPT = "workload: script\ncode_path: /private/common/code/digits\n"
SFT = "workload: sft\nmodel_id: Qwen/Qwen2.5-0.5B\ntrain_file: /private/common/d\nn_gpus_per_node: 1\n"
PPO = SFT.replace("sft", "ppo") + "val_file: /private/common/v\n"


def read(text: str) -> TaskSpec:
    return read_spec(text.encode())[0]


def problems(text: str) -> dict[str, str]:
    """Field → what is wrong with it. That the message names the first of them is checked in passing."""
    with pytest.raises(BadSpec) as raised:
        read(text)
    listed = raised.value.detail["problems"]
    assert raised.value.status == 422
    assert raised.value.hint
    assert raised.value.message == f"{listed[0]['at']}: {listed[0]['problem']}"
    return {problem["at"]: problem["problem"] for problem in listed}


def unreadable(body: str | bytes) -> str:
    with pytest.raises(UnreadableSpec) as raised:
        read_spec(body if isinstance(body, bytes) else body.encode())
    assert raised.value.status == 400
    return raised.value.message


# --- what is read -----------------------------------------------------------------------------------
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_text_is_given_back_byte_for_byte(line_end: str) -> None:
    body = f"# mine\n{SCRIPT}\nname: '數字'   # trailing\n\n".replace("\n", line_end).encode()
    spec, text = read_spec(body)
    assert text.encode() == body
    assert spec.name == "數字"


def test_a_byte_order_mark_is_no_part_of_the_first_field_but_of_the_text() -> None:
    spec, text = read_spec(b"\xef\xbb\xbf" + SCRIPT.encode())
    assert spec.workload is Workload.SCRIPT
    assert text.startswith("\ufeff")


def test_json_is_told_by_its_brace() -> None:
    body = json.dumps({"workload": "script", "code_path": "/private/common/code/digits"}).encode()
    assert read_spec(b" \n" + body)[0] == read(SCRIPT)


def test_what_begins_as_json_is_not_read_as_yaml() -> None:
    with pytest.raises(UnreadableSpec, match="line 1, column 2"):
        read_spec(b"{workload: script}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1.5E+3", 1500.0),
        (".5", 0.5),
        ("-3", -3),
        ("1_000", 1000),
        ("0x10", 16),
        ("yes", True),
        ("off", False),
        ("True", True),
        ("~", None),
        ("", None),
        ("'1e-6'", "1e-6"),
        ('"no"', "no"),
        ("2026-11-20", "2026-11-20"),
        ("1:30", "1:30"),
        ("007", "007"),
        ("bf16", "bf16"),
        ("1e-6x", "1e-6x"),
    ],
)
def test_scalars_are_read_as_verl_reads_its_own_files(text: str, value: Any) -> None:
    value_read = read(f"{SFT}overrides:\n  data.b: {text}\n").overrides["data.b"]
    assert (value_read, type(value_read)) == (value, type(value))


# --- what is no spec at all -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("   \n# nothing\n", "empty"),
        ("---\n", "empty"),
        ("- a\n- b", "no list of fields"),
        ("script", "no list of fields"),
        ("42", "no list of fields"),
        ("workload: ppo: grpo", "line 1, column 14"),
        ("a: 1\n\tb: 2", "line 2"),
        ("a: [1, 2", "line 1"),
        ("a: 1\nb: {x: 'y\n", "line 3"),
        ('a: "\\q"', "line 1, column 6"),
        ("a: &x 1", "anchors"),
        ("a: *x", "anchors"),
        ("<<: *x\na: 1", "anchors"),
        ("&x a: 1", "anchors"),
        ("a: !!python/object/apply:os.system ['id']", "tags"),
        ("!!map {a: 1}", "tags"),
        ("a: !!int '3'", "tags"),
        ("a: ! b", "tags"),
        ("%TAG ! tag:evil,2026:\n---\na: 1", "tags"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' is there twice"),
        ("a: {b: 1, 'b': 2}", "twice"),
        ("1: x", "a key must be a text"),
        ("null: x", "a key must be a text"),
        ("[a]: x", "a key must be a text"),
        ("? {a: b}\n: x", "a key must be a text"),
        ("a: 1\n---\nb: 1", "more than one document"),
        ("a: 1\n...\n---\n", "more than one document"),
        ("a: x\0y", "line 1, column 5: U+0000"),
        ("a: 1\nbc: \x07", "line 2, column 5: U+0007"),
        ('a: "\\UFFFFFFFF"', "out of range"),
        ('a: "\\U00110000"', "out of range"),
        (f"%YAML 1.{'9' * 5000}\n---\na: 1", "out of range"),
        ("%YAML 3.0\n---\na: 1", "line 1"),
        ("a: " + "[" * 30 + "]" * 30, "nested"),
        ("[" * 30_000, "nested"),
        ("? " * 15_000, "nested"),
        ("- " * 15_000, "nested"),
        ("{a: " * 10_000, "not JSON"),
        (f"a: [{'1,' * 9000}]", "parts"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": {"b": 1, "b": 2}}', "twice"),
        ('{"a": 1} x', "line 1, column 10"),
        ('{"a":\n  nope}', "line 2, column 3"),
        ('{"a":' + "[" * 30_000, "nested"),
        ('{"a": ' + "9" * 5000 + "}", "JSON"),
        ('{"a": ' + "[" * 25 + "]" * 25 + "}", "nested"),
        ('{"a": "x\0y"}', "control character"),
    ],
)
def test_what_is_no_plain_text_of_fields_is_refused_and_the_place_is_named(text: str, problem: str) -> None:
    assert problem in unreadable(text)


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join(['*' + old] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    assert "anchors" in unreadable("\n".join(lines))


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    assert "byte 9" in unreadable(b"name: 'a\n\xff'")
    unreadable(SCRIPT.encode("utf-16"))


def test_a_spec_of_64_kib_is_read_and_one_byte_more_is_not() -> None:
    body = (SCRIPT + "#").encode().ljust(MAX_SPEC_BYTES, b"x")
    assert read_spec(body)[0] == read(SCRIPT)
    with pytest.raises(TooLarge):
        read_spec(body + b"x")
    with pytest.raises(TooLarge):
        read_spec(b"[" * (1 << 20))


# --- wrong values -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("nnodes: '2'", "nnodes"),
        ("nnodes: true", "nnodes"),
        ("nnodes: 1.5", "nnodes"),
        ("nnodes: 0", "nnodes"),
        ("nnodes: 65", "nnodes"),
        ("nnodes: 2026-01-01", "nnodes"),
        ("nnodes: [1]", "nnodes"),
        ("nnodes:", "nnodes"),
        (f"nnodes: {'9' * 90}", "nnodes"),
        ("cpus_per_gpu: .nan", "cpus_per_gpu"),
        ("cpus_per_gpu: .inf", "cpus_per_gpu"),
        ("cpus_per_gpu: 1e999", "cpus_per_gpu"),
        ("cpus_per_gpu: 0", "cpus_per_gpu"),
        ("cpus_per_gpu: '1'", "cpus_per_gpu"),
        ("cpus_per_gpu: true", "cpus_per_gpu"),
        ("backfill: 1", "backfill"),
        ("backfill: 'yes'", "backfill"),
        ("name: 3", "name"),
        ("name: {a: b}", "name"),
        (f"name: {'x' * 201}", "name"),
        ('name: "a\\0b"', "name"),
        ('name: "a\\nb"', "name"),
        ('name: "\\u202Etxt"', "name"),
        ('name: "\\uD800"', "name"),
        ("model_id: ../../etc", "model_id"),
        ("model_id: a/b/c", "model_id"),
        ("model_id: /x", "model_id"),
        ("model_id: a..b", "model_id"),
        ("model_id: 'a\n'", "model_id"),
        ("model_id: a b", "model_id"),
        ("model_id: '$(x)'", "model_id"),
        ("train_file: ''", "train_file"),
        ('train_file: "/private/${oc.env:HOME}/d"', "train_file"),
        ("code_path: '/private/common/${x}'", "code_path"),
        ("max_wait_s: 0", "max_wait_s"),
        ("restart_on_infra: 6", "restart_on_infra"),
        ("save_freq: 0", "save_freq"),
        ("save_freq: -2", "save_freq"),
        ("total_epochs: 0", "total_epochs"),
        ("n_gpus_per_node: 0", "n_gpus_per_node"),
        ("n_gpus_per_node: 17", "n_gpus_per_node"),
        ("workload: dpo", "workload"),
        ("workload: SFT", "workload"),
        ("unknown: 1", "unknown"),
        ("<<: {nnodes: 2}", "<<"),
        ("convert: {model: m.onnx}", "convert.images"),
        ("convert: yes", "convert"),
        ("overrides: [a]", "overrides"),
        ("overrides: {data.b: [.inf]}", "overrides.data.b.0"),
        ("overrides: {data.b: {'c d': 1}}", "overrides.data.b"),
        ("overrides: {data.b: .nan}", "overrides.data.b"),
        ("overrides: {data.b: '${oc.env:TOKEN}'}", "overrides.data.b"),
        ('overrides: {data.b: "x\\ny"}', "overrides.data.b"),
        (f"overrides: {{data.b: '{'x' * 1001}'}}", "overrides.data.b"),
        (f"overrides: {{data.b: {1 << 64}}}", "overrides.data.b"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(line: str, at: str) -> None:
    name = line.partition(":")[0]
    rest = "".join(f"{kept}\n" for kept in SFT.splitlines() if not kept.startswith(f"{name}:"))
    assert list(problems(f"{rest}{line}\n")) == [at]


@pytest.mark.parametrize(
    ("line", "at", "meant"),
    [
        ("trian_file: /private/common/d", "trian_file", "train_file"),
        ("gpus: 3", "gpus", "n_gpus_per_node"),
        ("model: gpt2", "model", "model_id or model_path"),
        ("epochs: 3", "epochs", "total_epochs"),
        ("override: {}", "override", "overrides"),
        ("convert: {images: p, modle: m.onnx}", "convert.modle", "model"),
        ("convert: {pictures: p}", "convert.pictures", "images"),
    ],
)
def test_a_misspelt_field_is_told_first_with_the_one_that_was_meant(line: str, at: str, meant: str) -> None:
    text = PPO.replace("train_file: /private/common/d\n", "") + line
    listed = problems(text)
    assert next(iter(listed.items())) == (at, f"there is no such field: did you mean {meant}?")
    assert "train_file" in listed


def test_a_value_that_is_none_of_a_fields_is_told_with_the_one_that_was_meant() -> None:
    (sentence,) = problems(f"{PPO}rollout: vlm").values()
    assert sentence == "it must be 'vllm', 'sglang' or 'trtllm': did you mean vllm?"


def test_a_field_without_which_there_is_no_task_is_said_to_be_needed() -> None:
    assert problems(f"{PPO}convert: {{}}") == {"convert.images": "it is needed"}


def test_a_field_like_no_other_is_only_said_to_be_none() -> None:
    assert problems(f"{PPO}zzz: 1") == {"zzz": "there is no such field"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("123", 'write it in quotes, like "123"'),
        ("yes", 'write it in quotes, like "true"'),
        ("null", "leave the field"),
        ("[a]", "must be a text"),
    ],
)
def test_what_yaml_takes_for_a_number_is_to_be_written_in_quotes(value: str, message: str) -> None:
    assert message in problems(f"{PPO}name: {value}")["name"]


def test_half_a_character_is_refused_wherever_it_stands() -> None:
    body = {"workload": "script", "convert": {"images": "p", "options": {"a": ["ok", "\ud800"], "b\udfff": 1}}}
    with pytest.raises(BadSpec) as raised:
        read_spec(json.dumps(body).encode())
    assert [p["at"] for p in raised.value.detail["problems"]] == ["convert.options.a.1", "convert.options"]
    json.dumps(raised.value.to_dict(), ensure_ascii=False).encode()


# --- which fields go together -----------------------------------------------------------------------
@pytest.mark.parametrize("workload", ["ppo", "grpo", "sft"])
def test_each_problem_of_a_bare_verl_task_names_its_field(workload: str) -> None:
    needs_validation = ["val_file"] if workload != "sft" else []
    assert list(problems(f"workload: {workload}")) == ["model_path", "train_file", *needs_validation, "n_gpus_per_node"]


def test_a_script_needs_its_folder_and_runs_on_one_node() -> None:
    assert list(problems("workload: script\nnnodes: 2")) == ["code_path", "nnodes"]


def test_a_model_is_named_once() -> None:
    assert "either" in problems(SFT + "model_path: /private/common/models/m")["model_path"]
    assert read(SFT.replace("model_id: Qwen/Qwen2.5-0.5B", "model_path: /private/common/m")).model_id is None


def test_a_bad_model_id_is_not_called_a_missing_one_too() -> None:
    assert list(problems(SFT.replace("Qwen/Qwen2.5-0.5B", "'?'"))) == ["model_id"]


@pytest.mark.parametrize("line", ["program: other.py", "args: [--fast]", "cpus: 2"])
def test_what_is_for_scripts_is_refused_for_verl(line: str) -> None:
    assert problems(f"{PPO}{line}") == {line.partition(":")[0]: "ppo has none"}
    read(f"{SCRIPT}{line}")


@pytest.mark.parametrize(
    "line",
    [
        "model_id: gpt2",
        "cpus_per_gpu: 2",
        "total_epochs: 1",
        "total_training_steps: 1",
        "save_freq: 1",
        "test_freq: 1",
        "overrides: {data.b: 1}",
        "rollout: vllm",
        "algorithm: rloo",
        "reward_model: org/judge",
    ],
)
def test_what_is_for_verl_is_refused_for_scripts(line: str) -> None:
    assert problems(f"{SCRIPT}{line}") == {line.partition(":")[0]: "script has none"}


@pytest.mark.parametrize("place", ["", "../judge", "a/b/c", "judge;id", "~/judge"])
def test_a_model_that_judges_is_of_hugging_face_or_a_whole_path(place: str) -> None:
    assert list(problems(f"{PPO}reward_model: {json.dumps(place)}")) == ["reward_model"]
    assert read(f"{PPO}reward_model: org/judge").reward_model == "org/judge"


@pytest.mark.parametrize("text", [PPO, SFT])
def test_only_grpo_judges_answers_in_groups(text: str) -> None:
    assert list(problems(f"{text}algorithm: rloo")) == ["algorithm"]


def test_sft_cannot_validate_without_a_file_to_do_it_with() -> None:
    assert list(problems(f"{SFT}test_freq: 5")) == ["test_freq"]
    assert read(f"{SFT}test_freq: -1").test_freq == -1
    assert read(f"{SFT}test_freq: 5\nval_file: /private/common/v").test_freq == 5


@pytest.mark.parametrize("program", ["../x.py", "a/b.py", "", ".hidden", "-c", "x y.py", "x;id", "$(id)", "x\\y"])
def test_a_program_is_the_plain_name_of_a_file(program: str) -> None:
    assert list(problems(f"{SCRIPT}program: {json.dumps(program)}")) == ["program"]


@pytest.mark.parametrize(
    "word",
    [
        "/etc/passwd",
        "--data=/private/users/bob/d",
        "../../bob",
        "a/../b",
        "x:/y",
        "file:///x",
        "~",
        "~bob/x",
        "--in ~/x",
        "['/x']",
        "..",
        "a,/b",
    ],
)
def test_an_argument_that_names_a_path_is_refused(word: str) -> None:
    assert list(problems(f"{SCRIPT}args: {json.dumps([word])}")) == ["args.0"]
    assert list(problems(f"{SFT}overrides: {json.dumps({'data.b': word})}")) == ["overrides.data.b"]


@pytest.mark.parametrize(
    "word", ["--epochs=5", "Qwen/Qwen2.5", "either / or", "1.5", "a..b", "$(id)", "模型", "", "x~y", "x/"]
)
def test_other_arguments_are_fine(word: str) -> None:
    assert read(f"{SCRIPT}args: {json.dumps([word])}").args == [word]


def test_the_command_line_has_room_for_what_is_passed_on() -> None:
    assert list(problems(f"{SCRIPT}args: {json.dumps(['x'] * 51)}")) == ["args"]
    assert "together" in problems(f"{SCRIPT}args: {json.dumps([chr(39) * 900] * 10)}")["args"]
    quotes = {f"data.b{i}": "'" * 900 for i in range(10)}
    assert "together" in problems(f"{SFT}overrides: {json.dumps(quotes)}")["overrides"]
    assert "100" in problems(f"{SFT}overrides: {json.dumps({f'data.b{i}': 1 for i in range(101)})}")["overrides"]


# --- overrides --------------------------------------------------------------------------------------
@pytest.mark.parametrize("prefix", ["", "+", "++"])
@pytest.mark.parametrize(
    "key",
    [
        *OURS,
        "trainer",
        "data",
        "model",
        "hydra.run.dir",
        "ray_kwargs.ray_init.num_cpus",
        "trainer.nnodes.x",
        "data.custom_cls.path",
        "custom_reward_function.path",
        "actor_rollout_ref.model.external_lib",
        "actor_rollout_ref.model.trust_remote_code",
        "reward_model.enable_resource_pool",
        "reward_model.n_gpus_per_node",
        "trainer.rollout_data_dir",
        "data.tokenizer_path",
    ],
)
def test_what_is_not_the_tasks_to_set_is_refused(prefix: str, key: str) -> None:
    assert f"{prefix}{key}" in problems(f"{SFT}overrides: {json.dumps({prefix + key: 1})}")["overrides"]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "~a",
        "a b",
        "a=1 b",
        "a.",
        ".a",
        "a..b",
        "a/b",
        "a@b",
        "_target_",
        "a._target_",
        "--config-dir",
        "-m",
        "+",
        "+++a",
        "a[0]",
        "${a}",
        "a\n",
        "é",
        "a:b",
        "x" * 201,
    ],
)
def test_a_key_that_hydra_would_read_as_more_than_a_key_is_refused(key: str) -> None:
    assert "no key" in problems(f"{SFT}overrides: {json.dumps({key: 1})}")["overrides"]


@pytest.mark.parametrize(
    "key",
    [
        "actor_rollout_ref.rollout.n",
        "+data.apply_chat_template_kwargs.enable_thinking",
        "trainer.val_before_train",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "data.train_batch_size",
        "actor_rollout_ref.model.target_modules",
        "actor_rollout_ref.model.override_config.attn_implementation",
    ],
)
def test_other_settings_of_verl_may_be_changed(key: str) -> None:
    assert read(f"{PPO}overrides: {{{key}: 4}}").overrides == {key: 4}


@pytest.mark.parametrize(
    "key",
    [
        "global_profiler.tool",
        "global_profiler.finish_hook_cmd",
        "actor_rollout_ref.actor.profiler.enable",
        "a.b",
        "skip.rollout.enable",
        "distillation.enabled",
        "transfer_queue.enable",
        "trainer.v1.trainer_mode",
        "trainer.checkpoint_callback_class",
        "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
        "actor_rollout_ref.rollout.custom_async_server.name",
        "actor_rollout_ref.actor.optim.optimizer_impl",
        "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module",
        "actor_rollout_ref.rollout.trace.backend",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_cls",
        "data.finish_cmd",
        "data.some_fn",
        "data.tokenizer",
        "data.sampler.class_name",
        "reward.sandbox_fusion.url",
        "reward.custom_reward_function.name",
        "reward.reward_manager.source",
        "reward.reward_manager.module.name",
        "model_engine",
        "critic",
        "actor_rollout_ref.rollout.prometheus.port",
        "actor_rollout_ref.rollout.disaggregation.prefill_replicas",
    ],
)
def test_what_is_not_about_training_itself_is_not_taken_whatever_verl_adds_there(key: str) -> None:
    assert key in problems(f"{PPO}overrides: {{{key}: x}}")["overrides"]


@pytest.mark.parametrize(
    "name", ["finish_cmd", "some_fn", "a_class", "path", "profiler", "trust_remote_code", "nnodes"]
)
@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: [1, it], lambda it: {"deep": [[it]]}])
def test_nor_within_a_map(name: str, wrap: Callable[[Any], Any]) -> None:
    overrides = {"data.x": wrap({"fine": 1, name: "x"})}
    assert name in problems(f"{PPO}overrides: {json.dumps(overrides)}")["overrides"]


@pytest.mark.parametrize(
    ("spec", "key"),
    [(SFT, "critic.optim.lr"), (SFT, "actor_rollout_ref.rollout.n"), (PPO, "optim.lr"), (PPO, "engine.param_offload")],
)
def test_a_setting_of_another_workload_is_refused_before_verl_does(spec: str, key: str) -> None:
    assert key in problems(f"{spec}overrides: {{{key}: 4}}")["overrides"]


@pytest.mark.parametrize("word", ["Qwen/Qwen2.5", "kernels-community/flash-attn", "//evil.example", "a/b"])
def test_a_value_names_no_repository_or_address(word: str) -> None:
    assert list(problems(f"{SFT}overrides: {json.dumps({'data.b': word})}")) == ["overrides.data.b"]
    nested = json.dumps({"data.b": [1, {"c": word}]})
    assert "names a path" in next(iter(problems(f"{SFT}overrides: {nested}").values()))


def test_lists_and_maps_are_taken_as_they_are() -> None:
    overrides = {
        "actor_rollout_ref.actor.checkpoint.save_contents": ["model", "hf_model"],
        "data.apply_chat_template_kwargs": {"enable_thinking": False, "deep": {"list": [1, [None, 1e-6]]}},
        "actor_rollout_ref.model.target_modules": [],
    }
    assert read(f"{PPO}overrides: {json.dumps(overrides)}").overrides == overrides


@pytest.mark.parametrize("name", ["a b", "", "true", "NaN", "a:b", "_target_", "é", "a.b"])
def test_the_keys_of_a_map_are_keys_to_hydra_too(name: str) -> None:
    assert list(problems(f"{PPO}overrides: {json.dumps({'data.b': {name: 1}})}")) == ["overrides.data.b"]


# --- convert ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        "/etc/x.onnx",
        "../x.onnx",
        "a/../x.onnx",
        "a//x.onnx",
        "./x.onnx",
        "x.bin",
        "",
        "a\\x.onnx",
        "a\u2044x.onnx",
        "x\u200b.onnx",
        " x.onnx",
    ],
)
def test_the_model_to_convert_is_an_onnx_file_in_the_folder_of_the_job(model: str) -> None:
    text = f"{SCRIPT}convert: {json.dumps({'model': model, 'images': 'p.zip'})}"
    assert list(problems(text)) == ["convert.model"]


@pytest.mark.parametrize("images", ["../p", "a/../p", "", ".", "p/", "p\u202e"])
def test_pictures_inside_the_folder_of_the_job_do_not_lead_out_of_it(images: str) -> None:
    assert list(problems(f"{SCRIPT}convert: {json.dumps({'images': images})}")) == ["convert.images"]


def test_what_conversion_is_told_is_handed_on_as_it_is() -> None:
    options = {"preprocess": {"mean": [0.5, 1e-3], "color": "RGB"}, "allow_damaged_images": True, "x": None}
    convert = {"images": "/private/users/alice/datasets/p.zip", "options": options, "name": "數字"}
    assert read(f"{SCRIPT}convert: {json.dumps(convert)}").convert == ConvertSpec.model_validate(convert)


# --- writing ----------------------------------------------------------------------------------------
def test_a_spec_is_written_in_the_order_of_its_fields_without_its_defaults() -> None:
    spec = TaskSpec(
        workload=Workload.SFT,
        n_gpus_per_node=2,
        train_file="/private/common/d",
        model_id="gpt2",
        name="試",
        overrides={"optim.lr": 1e-6, "data.text": "1e-6", "data.no": "no", "data.on": False},
        backfill=False,
        nnodes=1,
    )
    assert write_spec(spec) == (
        "workload: sft\nname: 試\nmodel_id: gpt2\ntrain_file: /private/common/d\nn_gpus_per_node: 2\n"
        "overrides:\n  optim.lr: 1.0e-06\n  data.text: '1e-6'\n  data.no: 'no'\n  data.on: false\n"
    )


def test_the_figure_of_the_best_checkpoint_tells_by_its_name_whether_less_is_better() -> None:
    assert read(f"{PPO}keep_best: 2\nbest_metric: val-core/gsm8k/reward/mean@1\n").keep_best == 2
    assert "less of it is better" in problems(f"{PPO}keep_best: 2\nbest_metric: val/length\n")["best_metric"]
    assert problems(f"{SCRIPT}keep_best: 2\n") == {"keep_best": "script has none"}
