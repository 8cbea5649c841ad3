"""A job with a rule, in a web that may send to this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.results.model.rule import Rule, RuleSet
from app.video.model.job import VideoJob
from tests.harness.users import Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.environments import container, env
from tests.harness.video.nodes import Env
from tests.harness.video.sinks import Receiver, running_receiver, take
from tests.harness.video.web import settings_in

__all__ = ["container", "env"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as made:
        yield made


@pytest.fixture(scope="package")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    settings = settings_in(tmp_path_factory.mktemp("web"), shared_valkey)
    with within(settings.model_copy(update={"notification_networks": "127.0.0.0/8"})) as made:
        yield made


@pytest.fixture
def job(env: Env) -> VideoJob:
    """With a rule, and a row before there is any sink."""
    made = env.running()
    env.rules.put(env.producer(made.uid), RuleSet((), (Rule("come", cooldown_s=0),)))
    take(env, made.uid, 1)
    return made
