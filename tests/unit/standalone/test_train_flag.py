"""`modelmill up --train`: Ray is installed if it is missing, unless another cluster is named."""

from __future__ import annotations

import pytest

from app.cli.up import command as cli
from app.kit.cli.command import CannotStart
from app.settings import load_settings


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The extras that were to be installed; none can be."""
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(cli, "ensure_extra", lambda extra, module: seen.append((extra, module)))
    return seen


def test_ray_is_installed_and_where_it_cannot_be_nothing_starts(requests: list[tuple[str, str]]) -> None:
    with pytest.raises(CannotStart, match="could not be installed"):
        cli.require_ray()
    assert requests == [("train", "ray")]


def test_with_the_sample_what_its_training_needs_is_installed(
    requests: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotStart, match="PyTorch"):
        cli.require_sample()
    monkeypatch.setattr(cli, "ensure_extra", lambda extra, module: requests.append((extra, module)) or True)
    cli.require_sample()
    assert requests == [("sample", "torch"), ("sample", "torch"), ("sample", "sklearn")]


def test_nothing_is_installed_where_another_cluster_is_named(
    requests: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = load_settings().model_copy(update={"ray_address": "http://127.0.0.1:1"})
    monkeypatch.setattr("app.settings.load_settings", lambda: named)
    with pytest.raises(CannotStart, match="another one"):
        cli.require_ray()
    assert requests == []
