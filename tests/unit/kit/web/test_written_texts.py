"""Events, decisions and remarks in the reader's language."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from app.conversion.toolchains.host.bie_report import AFTER_A_SEARCH as ADVICE
from app.conversion.toolchains.host.quality import VERDICT_RULE
from app.inference.sources import refusals, srt
from app.kit.web.languages import CHINESE, ENGLISH, catalogue
from app.kit.web.templates import environment
from app.kit.web.written_texts import CONTEXT, TextForm, forms_of
from app.video.service.planner import BY_HAND, start_message

SILENT = "Its node edge is silent. What it does is not known; it goes on with its last plan."
UNUSED = "were not used to choose ranges"
PROGRAMS = [
    *((f"video/scheduling/policies/{name}.py", set[str]()) for name in ("one_side", "fixed", "aimd", "stepwise")),
    ("video/service/node_changes.py", {"JobChange"}),
    ("edge/video/runner/job.py", {"note", "_note_once", "_end"}),
    ("edge/video/runner/source_reader.py", {"_note", "_end"}),
    ("edge/video/runner/frame_workers.py", {"_note"}),
    ("video/service/jobs.py", {"add_event", "enter", "VideoJob"}),
    ("video/service/planner.py", {"DecisionRecord"}),
    ("joint_inference/service/changes.py", {"Condition"}),
    *((f"notifications/senders/{name}.py", {"Outcome"}) for name in ("__init__", "post", "email")),
    ("notifications/service/outbox.py", {"Outcome"}),
]
"""Where texts are written, and what they are handed to there."""


CAMERA_PROBLEMS = [
    *refusals.OF_CAMERAS.values(),
    *refusals.OF_STREAMS.values(),
    *refusals.REFUSALS.values(),
    refusals.HOST_UNKNOWN,
    refusals.DISCONNECTED,
    refusals.UNTRUSTED,
    refusals.NO_VIDEO,
    refusals.LEADS_ELSEWHERE,
    refusals.REFUSED,
    *srt.REASONS.values(),
    "its URL has no port",
    "its URL has a #, which is written %23 there",
    "its mode has to be caller or listener",
    "its latency has to be in milliseconds, at most 10,000",
    "its passphrase has to have 10 to 79 bytes",
    "its streamid has to have at most 512 bytes",
]


def shown(text: str, language: str = CHINESE) -> str:
    return environment(language).from_string("{{ text | written }}").render(text=text)


def test_the_start_of_a_video_job_says_who_made_its_plan() -> None:
    assert (start_message(3, BY_HAND), start_message(3, "profile")) == ("Plan 3, by hand.", "Plan 3, by profile.")
    assert shown("Plan 3, by hand.") == "計畫 3，手動給定。"
    assert shown("Plan 3, by profile.") == "計畫 3，由 profile 排定。"


def test_english_is_what_was_written() -> None:
    assert shown("Its node <b> is heard again.", ENGLISH) == "Its node &lt;b&gt; is heard again."


def test_a_text_is_known_by_its_form_and_a_name_stays_a_name() -> None:
    assert shown("Its node <b> is heard again.") == "節點 &lt;b&gt; 恢復回應。"
    assert shown(SILENT).startswith("節點 edge 沒有回應。"), "edge is a role elsewhere"
    assert shown("The edge worker 'a' starts on 'edge'.") == "邊緣工作程序 &#39;a&#39; 正在 &#39;edge&#39; 上啟動。"


@pytest.mark.parametrize("reason", CAMERA_PROBLEMS)
def test_why_a_camera_cannot_be_opened_is_said_in_the_readers_language(reason: str) -> None:
    text = shown(f"the camera gate cannot be opened as a video: {reason}")
    assert text.startswith("the camera gate 無法作為影片開啟：")
    assert "lang=" not in text
    assert reason not in text


def test_why_a_message_was_not_delivered_is_said_in_the_readers_language() -> None:
    assert shown("it answered 500") == "對方回應 500"
    assert shown("more than 500 messages waited for it") == "等待送出的訊息超過 500 則"
    assert shown("its host cannot be resolved: [Errno -2] Name or service not known").startswith("無法解析主機名稱：")
    for number in (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET):
        text = shown(f"its host cannot be reached: {os.strerror(number)}")
        assert text.startswith("無法連線到主機：") and os.strerror(number) not in text
    assert shown("10.0.0.1 is an address of this machine or of its private network.").startswith("10.0.0.1 是")


def test_facts_that_are_texts_are_translated_and_lists_of_them() -> None:
    chosen = "480p as JPEG, 0 left out after each, a with model 0 on n1, b with model 2 on n2: predicted 0.100 s of"
    text = f"Stays with {chosen} 0.500 s, 5 frames/s, quality 0.90, 3.1 kB a frame (nothing is clearly better)."
    line = shown(text)
    assert "a 以模型 0 在 n1 上、b 以模型 2 在 n2 上" in line and line.endswith("（沒有明顯更好的）。")


@pytest.mark.parametrize(
    "text",
    [
        VERDICT_RULE,
        f"{VERDICT_RULE}, no picture below 10 dB",
        f"the worst output has an SNR of 15.1 dB on pictures that {UNUSED}, below 20 dB: {ADVICE}",
        f"the worst output has an SNR of 23.0 dB on pictures that {UNUSED}, but the lowest of them 4.5 dB: {ADVICE}",
        "no output has an SNR, since all are zero in these pictures, or have another shape in 8 bits: the "
        "preprocessing may be wrong, or the pictures do not show what the model looks for",
        'the SNR is good, but the task loses 12.5 %: the goal "drop<=1%" looks for a model that loses less',
        "even with 16 bits for all tensors 12.5 % of the task are lost",
        "with these layers in float 3.2 % of the task are lost",
        "1 tensor in float",
        "3 tensors in float",
        "There are no reference pictures. Send one zip, or pictures, .npy or .npz files.",
        "no decoder understands the model's outputs: y [1, 4, 16, 16]",
        "Prepared samples lie around 0.49 ± 0.2; the model was trained on about 0.012 ± 0.65. "
        "The preprocessing (x − 127) / 128 would fit.",
        "Prepared samples span 0…255; the model was trained on values around 0.5 ± 0.2. "
        "Choose the preprocessing the model was trained with.",
        "The model subtracts means in the order BGR, but pictures are given as RGB. Choose BGR as channel order.",
    ],
)
def test_remarks_of_a_conversion_are_translated_as_a_whole(text: str) -> None:
    assert "lang=" not in shown(text)
    assert shown(text) != shown(text, ENGLISH)
    assert "現有" not in shown(text), "a pattern for lists"


def test_lines_and_sentences_are_looked_at_each_for_itself() -> None:
    text = "The cloud worker 'c' on 'n' ended with exit code 1\nOops: <x>\nHard samples get the edge's own answer."
    first, middle, last = shown(text).splitlines()
    assert "結束代碼 1" in first and middle == '<span lang="en">Oops: &lt;x&gt;</span>' and last.startswith("困難樣本")
    two = shown("The node 'n' of the big model is not connected. Nobody knows why.")
    assert two == '大模型的節點 &#39;n&#39; 沒有連線。 <span lang="en">Nobody knows why.</span>'


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("a: b: c", {"x": "a", "y": "b: c"}),
        (": b", None),
        ("a: ", None),
        ("a", None),
    ],
)
def test_facts_are_read_back_and_none_is_empty(text: str, facts: dict[str, str] | None) -> None:
    assert TextForm.of("%(x)s: %(y)s", "").facts_in(text) == facts


def test_a_translation_names_the_facts_of_its_form() -> None:
    forms = forms_of(CHINESE)
    assert len(forms) > 100
    for message in catalogue(CHINESE):
        if message.context == CONTEXT:
            form = TextForm.of(str(message.id), str(message.string))
            assert sorted(form.names) == sorted(TextForm.of(form.translation, "").names), message.id


def texts_of(tree: ast.AST, fact: str) -> Iterator[str]:
    """The texts of an expression, with this in the places of their facts."""
    if isinstance(tree, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else fact for part in tree.values).strip()
    elif isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value.strip()
    else:
        for child in ast.iter_child_nodes(tree):
            yield from texts_of(child, fact)


def written_in(tree: ast.AST, calls: set[str]) -> Iterator[ast.AST]:
    """What is handed to these calls, or assigned to a reason, a message or a why."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and re.search(r"\b(reason|message|why)\b", ast.unparse(node.targets[0])):
            yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in calls:
            yield from [*node.args, *(keyword.value for keyword in node.keywords)]


@pytest.mark.parametrize(("path", "calls"), PROGRAMS)
def test_every_text_that_is_written_has_a_form(path: str, calls: set[str]) -> None:
    tree = ast.parse((Path(app.__file__).parent / path).read_text(encoding="utf-8"))
    pairs = {
        pair
        for value in written_in(tree, calls)
        for pair in zip(texts_of(value, "7"), texts_of(value, ""), strict=True)
        if " " in pair[1].strip()
    }
    assert pairs
    assert not {full for full, bare in pairs if all('lang="en"' in shown(text) for text in (full, bare))}
