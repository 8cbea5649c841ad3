"""Where files and folders of a task are on the Data pages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from starlette.requests import Request

from app.homes.access import home_of
from app.homes.pages.urls import url_of
from app.kit.errors import ModelmillError
from app.training.model import Task
from app.training.spec import TaskSpec, read_spec

INPUTS = ("train_file", "val_file", "model_path", "reward_model", "code_path", "resume_from")
"""Fields of a task that may name a path."""


def page_of(request: Request) -> Callable[[str], str]:
    """Maps a path, as tasks name it, to the address of its Data page; "" for what is none of this user's paths."""
    home = home_of(request)

    def page(path: str) -> str:
        with suppress(ModelmillError):
            return url_of(home.locate(path))
        return ""

    return page


def inputs_of(task: Task, page: Callable[[str], str]) -> list[tuple[str, str, str]]:
    """The field, the path and the address of each path that a task names."""
    try:
        spec: TaskSpec = read_spec(task.spec_text.encode())[0]
    except ModelmillError:  # of an older version of this product
        return []
    given = {name: getattr(spec, name) for name in INPUTS}
    if spec.convert is not None:
        given["convert.images"] = spec.convert.images
    paths = {name: path for name, path in given.items() if path and path.startswith("/")}
    return [(name, path, page(path)) for name, path in paths.items() if page(path)]
