"""Why a preprocessing was recognized as the one of a model's training, as sentences. Pure data."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "metadata": "The file says so itself.",
    "bytes": "The input takes whole numbers, so it is fed with pixels as they are.",
    "family": "It looks like %(title)s, which is usually prepared like this.",
    "family_and_layer": "It looks like %(title)s, and its first layer agrees.",
    "inside": "The model normalizes its input itself, so it takes plain pixels.",
    "layer": "Its first layer was trained on values around %(mean)s.",
    "contradiction": "It looks like %(title)s, but its first layer was trained on other values.",
    "unknown": "Neither its shape nor its first layer indicates it.",
}
"""Gettext keys by code."""
