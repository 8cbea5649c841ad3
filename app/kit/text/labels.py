"""Labels, by the rules of Kubernetes: texts by which things are grouped and selected. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.kit.errors import BadInput

MAX_NAME = 253
MAX_VALUE = 63
MOST = 64
DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{DNS_LABEL}(?:\.{DNS_LABEL})*"
_SUBDOMAIN = re.compile(SUBDOMAIN)
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class BadLabels(BadInput, code="BAD_LABELS"):
    """What was given can be no labels."""


def is_name(text: str) -> bool:
    """RFC 1123 subdomain."""
    return len(text) <= MAX_NAME and _SUBDOMAIN.fullmatch(text) is not None


def is_key(key: str) -> bool:
    domain, mark, name = key.rpartition("/")
    return _QUALIFIED.fullmatch(name) is not None and (is_name(domain) if mark else True)


def is_value(value: str) -> bool:
    return not value or _QUALIFIED.fullmatch(value) is not None


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels by their keys.

    Raises:
        BadLabels: One has no valid key or value, or there are more than MOST.
    """
    wrong = next((f"{key}={value}" for key, value in labels.items() if not is_key(key) or not is_value(value)), None)
    if wrong is not None or len(labels) > MOST:
        what = f"{wrong[:128]!r} is no label." if wrong is not None else f"These are {len(labels)} labels."
        raise BadLabels(
            what,
            hint=f"A label is as site=berlin: key and value of at most {MAX_VALUE} of A-z 0-9 - _ . each, the key "
            f"perhaps after a domain and a slash; {MOST} of them at most.",
        )
    return dict(sorted(labels.items()))


def labels_in(text: str) -> dict[str, str]:
    """Reads a line that somebody typed: key=value, with commas or spaces between them.

    Raises:
        BadLabels: A word has no `=`, and as `check_labels`.
    """
    pairs = [word.partition("=") for word in re.split(r"[\s,]+", text) if word]
    unfit = next((key for key, mark, _ in pairs if not mark), None)
    if unfit is not None:
        raise BadLabels(f"{unfit[:128]!r} is no label.", hint="A label is as site=berlin.")
    return check_labels({key: value for key, _, value in pairs})


def text_of(labels: Mapping[str, str]) -> str:
    """For a line of text; labels_in reads it again."""
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a thing of these labels has all that the selector names."""
    return all(labels.get(key) == value for key, value in selector.items())
