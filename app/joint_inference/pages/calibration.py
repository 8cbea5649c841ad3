"""The page of a calibration: its progress, the results of each setting, and the best one within a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import calibrations_of, joint_of
from app.joint_inference.calibration.model import Calibration, State
from app.joint_inference.calibration.store import calibration_key
from app.joint_inference.calibration.sweep import Setting, Sweep, best_within, pareto
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.model.resource import Service
from app.joint_inference.pages.service_list import url_of
from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.line_plot import Dot, Line, Plot, axes, path_of, ticks
from app.kit.web.live_fragment import reload_page, reloads_when_gone, unchanged
from app.kit.web.page_actions import with_form
from app.kit.web.sse import change_stream
from app.kit.web.templates import TemplateContext, render

USUAL_BUDGET = 50


class BudgetQuery(BaseModel):
    """The share of samples that may be uploaded."""

    budget: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = USUAL_BUDGET
    """Percent of the samples."""


class SettingForm(BaseModel):
    """The setting to use."""

    setting: Annotated[int, Field(ge=0)]
    """Its index among all that were tried."""


def calibration(request: Request) -> Response:
    calibration = _of(request)
    context = _build_context(request, calibration, query(request, BudgetQuery))
    return render(request, "joint_inference/calibration.html", area="services", **context)


@reloads_when_gone
def live(request: Request) -> Response:
    """Sends the progress; at the end the page is reloaded."""
    calibration = _of(request)
    if calibration.has_ended or calibration.is_lost(now()):
        return reload_page()
    if request.query_params.get("seen") == f"{calibration.state.value}{calibration.progress}":
        return unchanged()
    return render(request, "joint_inference/_calibration_progress.html", calibration=calibration)


def events(request: Request) -> Response:
    """Signals progress to the page."""
    return change_stream(request, calibration_key(_of(request).calibration_id))


def pick(request: Request) -> Response:
    """Sends the best setting within another budget, while the slider moves."""
    calibration = _of(request)
    return render(
        request, "joint_inference/_pick.html", **_build_context(request, calibration, query(request, BudgetQuery))
    )


def ask_apply(request: Request) -> Response:
    """Shows what would change before it does."""
    calibration, choice = _of(request), query(request, SettingForm)
    return _apply_page(request, calibration, choice, None)


@with_form(SettingForm)
def apply(request: Request, choice: SettingForm) -> Response:
    calibration = _of(request)
    setting = _get_setting(
        calibrations_of(request).sweep(calibration.owner, calibration.calibration_id), choice.setting
    )
    try:
        changed = calibrations_of(request).apply(user_of(request), calibration.calibration_id, setting, now=now())
    except NotFound:
        raise
    except ModelmillError as error:
        return _apply_page(request, calibration, choice, error)
    return see_other(url_of(changed.namespace, changed.name, "?note=calibrated"))


def _apply_page(
    request: Request, calibration: Calibration, choice: SettingForm, problem: ModelmillError | None
) -> Response:
    sweep = calibrations_of(request).sweep(calibration.owner, calibration.calibration_id)
    setting = _get_setting(sweep, choice.setting)
    service = joint_of(request).services.get(user_of(request), calibration.request.namespace, calibration.request.name)
    return render(
        request,
        "joint_inference/apply.html",
        problem.status if problem else 200,
        area="services",
        calibration=calibration,
        sweep=sweep,
        setting=setting,
        number=choice.setting,
        service=service,
        problem=problem,
        url=url_of(service.namespace, service.name),
        changes=changes_of(_read_present(service), setting),
        old=service.specification.hard_example,
    )


def changes_of(present: Mapping[str, str], setting: Setting) -> list[tuple[str, str, str]]:
    """Returns key, old value and new value where these differ; empty if there is no difference."""
    keys = [*setting.parameters, *(key for key in present if key not in setting.parameters)]
    pairs = [(key, present.get(key, ""), setting.parameters.get(key, "")) for key in keys]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _read_present(service: Service) -> dict[str, str]:
    """Returns the current parameters of the algorithm."""
    algorithm = service.spec["edgeWorker"]["hardExampleAlgorithm"]
    return {pair["key"]: pair["value"] for pair in algorithm.get("parameters") or ()}


def _get_setting(sweep: Sweep, number: int) -> Setting:
    if number >= len(sweep.settings):
        raise NotFound(f"This calibration has no setting {number}.")
    return sweep.settings[number]


def _of(request: Request) -> Calibration:
    return calibrations_of(request).get(user_of(request), request.path_params["calibration_id"])


def _build_context(request: Request, calibration: Calibration, budget: BudgetQuery) -> TemplateContext:
    is_lost = calibration.is_lost(now())
    context: TemplateContext = {
        "calibration": calibration,
        "query": budget,
        "service_url": url_of(calibration.request.namespace, calibration.request.name),
        "is_lost": is_lost,
        "is_live": not calibration.has_ended and not is_lost,
        "sweep": None,
        "service": _find_service(request, calibration),
    }
    if calibration.state is not State.READY:
        return context
    sweep = calibrations_of(request).sweep(calibration.owner, calibration.calibration_id)
    best = best_within(sweep.settings, budget.budget / 100)
    numbers = {id(setting): number for number, setting in enumerate(sweep.settings)}
    front = pareto(sweep.settings)
    return context | {
        "sweep": sweep,
        "best": best,
        "number": numbers[id(best)] if best else None,
        "front": [(numbers[id(setting)], setting) for setting in front],
        "plot": quality_plot(sweep, front, best, budget.budget / 100),
        "algorithms": list(dict.fromkeys(setting.algorithm for setting in sweep.settings)),
    }


def _find_service(request: Request, calibration: Calibration) -> Service | None:
    """Returns the service, which may have been deleted since."""
    try:
        return joint_of(request).services.get(user_of(request), calibration.request.namespace, calibration.request.name)
    except ServiceNotFound:
        return None


ROUTES = [
    Route("/ui/calibrations/{calibration_id}", calibration),
    Route("/ui/calibrations/{calibration_id}/live", live),
    Route("/ui/calibrations/{calibration_id}/events", events),
    Route("/ui/calibrations/{calibration_id}/pick", pick),
    Route("/ui/calibrations/{calibration_id}/apply", ask_apply),
    Route("/ui/calibrations/{calibration_id}/apply", apply, methods=["POST"]),
]


STEPS = 20
"""Number of steps for the line of random choice, which is not quite straight for F1."""
KINDS = {"IBT": "ibt", "Threshold": "threshold", "CrossEntropy": "entropy"}


def quality_plot(sweep: Sweep, front: Sequence[Setting], best: Setting | None, budget: float) -> Plot:
    """Plots quality over the share of uploads.

    Args:
        front: settings on the Pareto front, by their share of uploads.
        best: the recommended one; None if there is none.
        budget: share of samples that may be uploaded, 0..1.
    """
    values = [setting.quality for setting in sweep.settings] + [sweep.edge_only, sweep.cloud_only]
    low, high = _get_bounds(min(values), max(values))
    x, y = axes((0.0, 1.0), (low, high))
    chance = [(step / STEPS, sweep.random(step / STEPS)) for step in range(STEPS + 1)]
    lines = [
        Line("edge-only", path_of([(0, sweep.edge_only), (1, sweep.edge_only)], x, y)),
        Line("cloud-only", path_of([(0, sweep.cloud_only), (1, sweep.cloud_only)], x, y)),
        Line("chance", path_of(chance, x, y)),
        Line("front", path_of(_list_steps([(s.upload, s.quality) for s in front]), x, y)),
        Line("budget", f"M{x(budget)} {y.start} L{x(budget)} {y.stop}"),
    ]
    unique = {(x(s.upload), y(s.quality), s.algorithm): s for s in sweep.settings}
    dots = [Dot(left, top, kind_of(name), label_of(setting)) for (left, top, name), setting in unique.items()]
    if best is not None:
        dots.append(Dot(x(best.upload), y(best.quality), "best", label_of(best)))
    return Plot(ticks(x, 100, "%"), ticks(y, 100, "%"), tuple(lines), tuple(dots))


def kind_of(algorithm: str) -> str:
    return KINDS.get(algorithm, "other")


def label_of(setting: Setting) -> str:
    parameters = ", ".join(f"{key} {value}" for key, value in setting.parameters.items())
    name = f"{setting.algorithm} ({parameters})" if parameters else setting.algorithm
    return f"{name}: {setting.quality:.1%} / {setting.upload:.1%}"


def _get_bounds(low: float, high: float) -> tuple[float, float]:
    """Returns whole steps of 5 % around the values, at least 10 % apart."""
    floor, ceiling = math.floor(low * 20 - 0.2) / 20, min(1.0, math.ceil(high * 20 + 0.2) / 20)
    return max(0.0, min(floor, ceiling - 0.1)), ceiling


def _list_steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float | None]]:
    """Returns what a budget achieves: level until the next better setting."""
    steps: list[tuple[float, float | None]] = []
    for place, (at, value) in enumerate(points):
        if place:
            steps.append((at, points[place - 1][1]))
        steps.append((at, value))
    if points:
        steps.append((1.0, points[-1][1]))
    return steps
