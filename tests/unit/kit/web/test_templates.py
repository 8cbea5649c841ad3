"""Templates, their texts and the files they point at."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from babel.messages.extract import extract
from babel.messages.pofile import read_po
from jinja2 import TemplateError, UndefinedError, nodes
from jinja2.ext import extract_from_ast

from app.kit.web import filters
from app.kit.web.common_pages import see_other
from app.kit.web.languages import LOCALES, NAMES, catalogue, choose_language, locale_of, translations
from app.kit.web.static import FOLDER as STATIC
from app.kit.web.static import static_url
from app.kit.web.templates import FOLDER, environment, icon

TEMPLATES = sorted(FOLDER.rglob("*.html"))
NOW = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
VENDORED = re.compile(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", re.MULTILINE)


def named(path: Path) -> str:
    """As other templates call it."""
    return str(path.relative_to(FOLDER))


@pytest.fixture(scope="module")
def parsed() -> dict[str, nodes.Template]:
    made = environment("en")
    return {named(path): made.parse(path.read_text("utf-8"), named(path), str(path)) for path in TEMPLATES}


def texts_of_template(template: nodes.Template) -> Iterator[str]:
    for _line, _function, text in extract_from_ast(template, ("_", "gettext", "ngettext")):
        parts = (text,) if isinstance(text, str) else tuple(part for part in text or () if part)
        if parts:  # _(name) has none: its texts are marked where they are written
            yield parts[0]


def texts_of_source(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for _line, text, *_ in extract("python", file, {"gettext": None, "ngettext": (1, 2)}):
            yield text if isinstance(text, str) else text[0]


@pytest.mark.slow
def test_every_text_of_a_template_is_translated(parsed: dict[str, nodes.Template]) -> None:
    known = catalogue("zh-Hant")
    texts = {name: set(texts_of_template(template)) for name, template in parsed.items()}
    texts["wording"] = set(texts_of_source(Path(filters.__file__)))
    assert texts["wording"] and len(set().union(*texts.values())) > 500
    missing = {
        name: [text for text in untranslated if not (known.get(text) and known.get(text).string)]
        for name, untranslated in texts.items()
    }
    assert not {name: lacking for name, lacking in missing.items() if lacking}


def test_what_destroys_never_has_the_focus() -> None:
    """Enter, pressed too soon, would destroy."""
    buttons = {named(path): re.findall(r"<button[^>]*btn-danger[^>]*>", path.read_text("utf-8")) for path in TEMPLATES}
    assert sum(map(len, buttons.values())) > 20
    assert not [name for name, tags in buttons.items() if any("autofocus" in tag for tag in tags)]


@pytest.mark.slow
def test_what_has_a_plural_is_not_looked_up_without_a_number(parsed: dict[str, nodes.Template]) -> None:
    """The catalogue does not find it then, and the page is English there."""
    counted = {message.id[0] for message in catalogue("zh-Hant") if isinstance(message.id, tuple)}
    used = {
        name: counted & {text for _, _, text in extract_from_ast(template, ("_", "gettext")) if isinstance(text, str)}
        for name, template in parsed.items()
    }
    assert not {name: texts for name, texts in used.items() if texts}


def test_two_catalogues_do_not_contradict_each_other() -> None:
    seen: dict[str, object] = {}
    for path in sorted((LOCALES / "zh_Hant").glob("*.po")):
        with path.open("rb") as file:
            for message in read_po(file, locale="zh_Hant"):
                key = message.id if isinstance(message.id, str) else message.id[0]
                if key:
                    assert seen.setdefault(key, message.string) == message.string, f"{path.name}: {key}"


@pytest.mark.slow
def test_a_translation_is_of_a_text_that_there_is() -> None:
    """Whatever of it is written in another case or broken into lines; texts with a context follow codes and forms."""

    def compact(text: str) -> str:
        return re.sub(r"""[\s"'\\]+""", "", text).lower()

    sources = [  # those that most texts are of first
        *TEMPLATES,
        *STATIC.glob("*.js"),
        *FOLDER.parent.glob("app/**/*.toml"),
        *FOLDER.parent.glob("app/**/*.py"),
    ]
    texts = compact(re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text("utf-8") for path in sources)))
    obsolete = []
    for path in sorted((LOCALES / "zh_Hant").glob("*.po")):
        with path.open("rb") as file:
            for message in read_po(file, locale="zh_Hant"):
                key = message.id if isinstance(message.id, str) else message.id[0]
                if key and not message.context and compact(key) not in texts:
                    obsolete.append(f"{path.name}: {key}")
    assert len(sources) > 1000 and obsolete == []


def test_a_translation_keeps_the_placeholders_of_its_text() -> None:
    names = re.compile(r"%\((\w+)\)s")
    for message in catalogue("zh-Hant"):
        if message.id and not message.context:  # a code says nothing of its facts
            source = message.id if isinstance(message.id, str) else message.id[1]
            given = message.string if isinstance(message.string, str) else message.string[0]
            assert set(names.findall(given)) == set(names.findall(source)), message.id


@pytest.mark.slow
def test_every_template_compiles(parsed: dict[str, nodes.Template]) -> None:
    made, wrong = environment("en"), dict[str, str]()
    for name, template in parsed.items():
        try:
            made.compile(template, name)
        except (TemplateError, SyntaxError) as error:
            wrong[name] = str(error)
    assert not wrong


@pytest.mark.parametrize("language", NAMES)
def test_what_compiles_in_one_language_compiles_in_every(language: str) -> None:
    """What a template is compiled with has the same names in all."""
    one, other = environment("en"), environment(language)
    for kind in ("filters", "tests", "globals", "extensions"):
        assert set(getattr(other, kind)) == set(getattr(one, kind)), kind
    assert "base.html" in one.list_templates()
    other.get_template("base.html")


def test_no_template_holds_script_or_style_inline() -> None:
    inline = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:|hx-on")
    assert not {named(path): matches for path in TEMPLATES if (matches := inline.findall(path.read_text("utf-8")))}


def test_nothing_is_fetched_from_another_host() -> None:
    fetch = re.compile(r"""(?:src|href)=["']https?:|url\(["']?https?:|@import|fetch\(["']https?:""")
    files = [*TEMPLATES, *STATIC.glob("*.css"), *STATIC.glob("*.js")]
    assert len(files) > len(TEMPLATES)
    assert not {path.name: matches for path in files if (matches := fetch.findall(path.read_text("utf-8")))}


def test_vendored_files_are_what_their_readme_says() -> None:
    listed = dict(VENDORED.findall((STATIC / "vendor" / "README.md").read_text("utf-8")))
    files = [path for path in (STATIC / "vendor").iterdir() if path.suffix not in {".md", ".txt"}]
    present = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert present == listed


def test_a_name_that_was_not_given_is_an_error_and_not_an_empty_string() -> None:
    with pytest.raises(UndefinedError):
        environment("en").from_string("{{ nothing }}").render()


def test_what_a_user_wrote_is_escaped() -> None:
    assert environment("en").from_string("{{ name }}").render(name="<b>") == "&lt;b&gt;"
    shown = environment("en").from_string("{{ _('took %(time)s', time=name) }}").render(name="<b>")
    assert shown == "took &lt;b&gt;"


def test_the_url_of_a_file_changes_with_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kit.web.static.FOLDER", tmp_path)
    (tmp_path / "a.css").write_text("a")
    first = static_url("a.css")
    assert static_url("a.css") == first
    (tmp_path / "a.css").write_text("bb")
    assert static_url("a.css") != first


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh-TW,zh;q=0.9,en;q=0.8", "zh-Hant"),
        ("zh-Hant-HK", "zh-Hant"),
        ("zh-CN", "zh-Hant"),
        ("en-GB,zh;q=0.5", "en"),
        ("de,fr;q=0.9", "en"),
        ("de,zh;q=0.9,en;q=0.8", "zh-Hant"),
        ("en;q=0,zh", "zh-Hant"),
        (";;q=,q=x,*", "en"),
    ],
)
def test_the_browser_chooses_the_language(header: str, language: str) -> None:
    assert choose_language(header) == language


def test_both_languages_say_times_in_their_own_way() -> None:
    moment = NOW - timedelta(minutes=3)
    for language, shown in (("en", "3 min. ago"), ("zh-Hant", "3 分鐘前")):
        text = environment(language).from_string("{{ moment | ago }}").render(moment=moment, now=NOW)
        assert shown in text and 'datetime="2026-11-20T19:57:00.000Z"' in text and "2026-11-20 19:57:00 UTC" in text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.42, "0.4 s"),
        (9.99, "10.0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (75, "1 min 15 s"),
        (3900, "1 h 05 min"),
        (200_000, "2 d 07 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, shown: str) -> None:
    assert filters.duration(seconds, translations("en")) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (1536, "1.5 KiB"), (102_400, "100 KiB"), (5 << 30, "5.0 GiB")],
)
def test_a_size_has_three_digits_at_most(size: int, shown: str) -> None:
    assert filters.file_size(size) == shown


def test_what_is_to_come_is_said_in_days() -> None:
    for days, shown in ((6, "in 6 days"), (30, "in 30 days")):
        text = filters.due(NOW + timedelta(days=days), NOW, translations("en"), locale_of("en"))
        assert text == shown
    assert filters.due(NOW + timedelta(hours=5), NOW, translations("en"), locale_of("en")) == "in 5 hr."


def test_numbers_are_grouped_and_tabular() -> None:
    assert environment("en").from_string("{{ 7882 | number }}").render() == '<span class="num">7,882</span>'
    assert environment("en").from_string("{{ 38.91 | number(1) }}").render() == '<span class="num">38.9</span>'


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "ui/jobs"])
def test_no_redirect_leads_to_another_host(path: str) -> None:
    assert see_other(path).headers["location"] == "/ui/jobs"


def test_an_icon_is_a_symbol_that_there_is_and_says_nothing_itself() -> None:
    symbols = set(re.findall(r'<symbol id="([a-z]+)"', (STATIC / "icons.svg").read_text("utf-8")))
    texts = {path: path.read_text("utf-8") for path in TEMPLATES}
    names = {name for text in texts.values() for name in re.findall(r'icon\("([a-z]+)"\)', text)}
    assert names and names <= symbols
    assert 'aria-hidden="true"' in icon("warn") and "#warn" in icon("warn")
    assert not [path.name for path, text in texts.items() if "<use" in text and '<svg class="icon" ' in text]


def test_a_question_whether_to_cancel_is_not_answered_by_cancel() -> None:
    answers = {
        named(path): re.findall(r'_\("(Cancel|Keep) the (\w+)"\)', path.read_text("utf-8")) for path in TEMPLATES
    }
    questions = {name: set(pairs) for name, pairs in answers.items() if pairs}
    assert len(questions) == 4
    for name, pairs in questions.items():
        assert pairs == {(verb, noun) for verb in ("Cancel", "Keep") for _, noun in pairs}, name
    assert not [named(path) for path in TEMPLATES if '_("Keep it' in path.read_text("utf-8")]
