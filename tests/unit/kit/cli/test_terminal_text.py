"""What a terminal would obey, in names and logs of others, is shown instead."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from pathlib import Path

import onnx
import pytest

from app.cli import main
from app.kit.cli.terminal_text import VisibleStream, print_log, visible
from tests.harness.api import small_model

TITLE, BELL, CLIPBOARD, QUERY = "\x1b]0;mine\x07", "\x07", "\x1b]52;c;Y3VybA==\x1b\\", "\x1b[6n"


@pytest.mark.parametrize("text", [TITLE, BELL, CLIPBOARD, QUERY, "\x9b6n", "\u202egnp.exe", "\x00", "\x7f", "\x1b[99A"])
def test_control_characters_become_signs(text: str) -> None:
    shown = visible(f"a{text}b")
    assert shown.isprintable() and len(shown) == len(text) + 2


@pytest.mark.parametrize("text", ["模型 ✓\n", "a\tb\r\n", "\x1b[1;31mred\x1b[0m", "\x1b[?25l\x1b[2K\x1b[1A", ""])
def test_text_colors_and_progress_bars_stay(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("words", [["inspect"], ["run"]])
def test_commands_show_them(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load_from_string(small_model())
    model.producer_name = f"trainer{TITLE}"
    file = tmp_path / f"m{TITLE}.onnx"
    onnx.save(model, file)
    monkeypatch.setattr(sys, "argv", ["modelmill", *words, str(file), *[str(file)] * (words == ["run"])])
    stdout = sys.stdout
    with suppress(SystemExit):
        main.main()
    out, err = capsys.readouterr()
    assert "mine" in out + err and "\x1b" not in out + err and BELL not in out + err
    assert sys.stdout is stdout


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "printed"),
    [(io.TextIOWrapper, b"\xff\x1b]0;mine\x07"), (Terminal, "\ufffd␛]0;mine␇".encode())],
)
def test_a_log_is_exact_in_a_file_and_visible_on_a_terminal(
    stream: type[io.TextIOWrapper], printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", VisibleStream(stream(out, encoding="utf-8")))
    print_log(b"\xff" + TITLE.encode())
    assert out.getvalue() == printed
