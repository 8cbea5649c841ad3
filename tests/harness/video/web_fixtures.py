"""A web of video for a whole file of tests, empty for each. Import the fixtures to have them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.harness.valkey import Valkey
from tests.harness.video.web import VideoWeb, video_web


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[VideoWeb]:
    with video_web(tmp_path_factory.mktemp("web"), shared_valkey) as web:
        yield web


@pytest.fixture
def env(started: VideoWeb) -> VideoWeb:
    started.empty()
    return started


@pytest.fixture
def client(env: VideoWeb) -> httpx.Client:
    return env.client
