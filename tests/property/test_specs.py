"""Whatever is sent as a spec: it is read or refused, written as it was read, and each text is one value for Hydra."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from app.kit.errors import ModelmillError
from app.training.model import Workload
from app.training.spec import ConvertSpec, TaskSpec, read_spec, write_spec
from app.training.workloads.submissions import argument, write_value
from tests.harness.timed_search import searched
from tests.harness.training.hydra import parsed

pytestmark = pytest.mark.slow


def read(text: str) -> TaskSpec:
    return read_spec(text.encode())[0]


# --- writing ------------------------------------------------------------------------------------------
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
TRICKY = st.sampled_from(
    [
        "1e-6",
        "no",
        "\x85 ",
        "\u2028",
        " \n x",
        "\ufeff",
        "😀",
        "~",
        "0x1F",
        "1_0",
        ".inf",
        "<<",
        "=",
        "2026-01-01",
        "- a",
        "a: b",
        "#",
        "&x",
        "!t",
        "'",
        '"',
    ],
)
VISIBLE = (TEXTS | TRICKY).filter(str.isprintable)


def is_pathless(word: str) -> bool:
    return not any(bit in word for bit in ("/", "~", "..", "${"))


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | TRICKY, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.from_regex(r"[x-z]{1,3}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | VISIBLE.filter(is_pathless),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
PATHS = TEXTS.map(lambda text: f"/private/{text}").filter(lambda path: "${" not in path)
CONVERTS = st.builds(ConvertSpec, images=PATHS, name=VISIBLE, options=st.dictionaries(TEXTS | TRICKY, JSON, max_size=3))
COMMON = {"name": VISIBLE, "convert": st.none() | CONVERTS, "backfill": st.booleans(), "train_file": PATHS}
SPECS = st.builds(
    TaskSpec,
    workload=st.just(Workload.SCRIPT),
    code_path=PATHS,
    cpus=st.floats(0.01, 1024),
    args=st.lists(VISIBLE.filter(is_pathless), max_size=5),
    **COMMON,
) | st.builds(
    TaskSpec,
    workload=st.sampled_from([Workload.PPO, Workload.GRPO]),
    model_path=PATHS,
    val_file=PATHS,
    n_gpus_per_node=st.integers(1, 16),
    nnodes=st.integers(1, 64),
    cpus_per_gpu=st.none() | st.floats(0.5, 99),
    overrides=st.dictionaries(st.from_regex(r"(data|trainer\.seed)\.[x-z]{1,3}", fullmatch=True), VALUES),
    **COMMON,
)


@searched(SPECS, seconds=1.5)
def test_what_is_written_reads_as_the_same_spec(spec: TaskSpec) -> None:
    spec_read = read(write_spec(spec))
    assert spec_read == spec
    assert repr(spec_read.overrides) == repr(spec.overrides)  # 1 is not True, nor 1.0


# --- whatever is sent -------------------------------------------------------------------------------
BITS = [
    "workload: ppo",
    "workload: script\n",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "? ",
    "\n",
    "  ",
    "&a ",
    "*a",
    "!!int ",
    "!x ",
    "<<: ",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "---\n",
    "...\n",
    '"',
    "'",
    "\\x",
    "\\U",
    "\\u12",
    "|\n",
    ">2\n",
    "#",
    "\t",
    "nnodes: ",
    "1e999",
    "0x",
    ".nan",
    "9" * 50,
    "overrides: ",
    "convert: ",
    "args: ",
    "images: ",
    "\ufeff",
    "\u2028",
    "\x85",
    "\0",
    "a" * 130,
    ",",
    "\ud7ff",
]
BODIES = (
    st.lists(st.sampled_from(BITS), max_size=25).map(lambda bits: "".join(bits).encode())
    | st.binary(max_size=60)
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(sorted(TaskSpec.model_fields)), JSON | st.just("script")).map(
        lambda fields: json.dumps(fields).encode()
    )
)


@searched(BODIES, seconds=1.5)
def test_whatever_is_sent_is_read_or_refused_and_the_refusal_can_be_sent(body: bytes) -> None:
    try:
        _, text = read_spec(body)
    except ModelmillError as error:
        assert error.status in (400, 413, 422)
        json.dumps(error.to_dict(), ensure_ascii=False).encode()
    else:
        assert text.encode() == body


# --- for Hydra ----------------------------------------------------------------------------------------
@searched(st.text("\\\"' ab,=[]{}$()#:;~", max_size=14) | st.text(max_size=20).filter(str.isprintable), seconds=0.5)
def test_every_text_is_one_value_for_hydra(text: str) -> None:
    if "${" in text:
        with pytest.raises(ValueError, match="replace"):
            write_value(text)
    else:
        assert parsed(argument("a.b", text)) == ("a.b", text)
