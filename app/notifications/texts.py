"""The text of a notification in the reader's language: a subject line and a few lines of text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.kit.web.coded_texts import plain_reason
from app.kit.web.languages import translations
from app.notifications.model import TEST, EventKind

Gettext = Callable[[str], str]


def subject_line(kind: str, data: Mapping[str, Any], language: str) -> str:
    """Returns the subject line.

    Args:
        kind: of the event, or TEST.
        data: of its body.
        language: BCP 47 tag.
    """
    named = {"name": data.get("name") or data.get("subject", ""), "rule": data.get("rule", "")}
    text = _write_sentence(kind, translations(language).gettext, goes_on=bool(data.get("flags"))) % named
    return " ".join(text.split())


def message_text(kind: str, data: Mapping[str, Any], language: str) -> str:
    """Returns the same line, the reason of the event, and a link."""
    texts = translations(language)
    _ = texts.gettext
    lines = [subject_line(kind, data, language)]
    if data.get("reason"):
        lines.append(_("Reason: %(reason)s") % {"reason": plain_reason(texts, data)})
    if data.get("hint"):
        lines.append(texts.gettext(str(data["hint"])))
    if data.get("snr_db") is not None:
        is_below = data.get("verdict") == "BELOW_RULE"
        lines.append(
            _("Worst output: %(snr)s dB") % {"snr": data["snr_db"]} + (_(", ") + _("below the rule")) * is_below
        )
    if data.get("url"):
        lines += ["", str(data["url"])]
    return "\n".join(lines)


def _write_sentence(kind: str, _: Gettext, *, goes_on: bool) -> str:
    """goes_on: the subject has further problems."""
    if kind == EventKind.VIDEO_CLEAR and goes_on:
        return _("A problem of the video job %(name)s is over; others remain.")
    if kind == EventKind.SERVICE_CLEAR and goes_on:
        return _("A problem of the service %(name)s is over; others remain.")
    return {
        EventKind.JOB_COMPLETED: _("The job %(name)s has completed."),
        EventKind.JOB_FAILED: _("The job %(name)s has failed."),
        EventKind.TASK_SUCCEEDED: _("The training task %(name)s has succeeded."),
        EventKind.TASK_FAILED: _("The training task %(name)s has failed."),
        EventKind.TASK_CANCELED: _("The training task %(name)s is cancelled."),
        EventKind.SERVICE_RUNNING: _("The service %(name)s is running."),
        EventKind.SERVICE_PENDING: _("The service %(name)s is waiting."),
        EventKind.SERVICE_FAILED: _("The service %(name)s has failed."),
        EventKind.SERVICE_DRIFT: _("Drift was detected at the service %(name)s."),
        EventKind.SERVICE_ROLLED_BACK: _("The service %(name)s was rolled back to its previous model."),
        EventKind.SERVICE_ALERT: _("The service %(name)s has a problem."),
        EventKind.SERVICE_CLEAR: _("The service %(name)s is back to normal."),
        EventKind.SERVICE_EVENT: _("The rule %(rule)s of the service %(name)s was triggered."),
        EventKind.VIDEO_ENDED: _("The video job %(name)s has ended."),
        EventKind.VIDEO_ALERT: _("The video job %(name)s has a problem."),
        EventKind.VIDEO_CLEAR: _("The video job %(name)s is back to normal."),
        EventKind.VIDEO_EVENT: _("The rule %(rule)s of the video job %(name)s was triggered."),
        TEST: _("This is a test: messages from Modelmill arrive here."),
    }[kind]
