"""Tasks and the cluster as the JSON API shows them. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import urlencode

from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import csv_cell
from app.kit.web.http import answer_of
from app.training import cluster_schemas, schemas, sweep_schemas
from app.training.model import Attempt, Conversion, TaskEvent
from app.training.model.checkpoint_order import CheckpointRanking
from app.training.model.learning_curve import Curve, best_of, thin_places
from app.training.service import AttemptFolder, Checkpoint, ClusterView, Holder, SweepView, TaskCurves, TaskView
from app.training.service.dashboards import ProcessStack
from app.training.service.results import RegisteredModel
from app.training.spec.changes import Difference

TASKS, SWEEPS = "/api/v2/tasks", "/api/v2/task-sweeps"


def summary(view: TaskView) -> schemas.TaskSummary:
    return answer_of(schemas.TaskSummary, view.task, view, **_write_view(view))


def _write_view(view: TaskView) -> JsonObject:
    """What the task does not have in this form."""
    task = view.task
    return {
        "demand": answer_of(schemas.DemandAnswer, task.demand, resources=dict(task.demand.resources)),
        "releasable_from": _format_moment(task.releasable_from),
        "latest_attempt": _describe_attempt(view, view.attempts[-1]) if view.attempts else None,
    }


def describe_task(view: TaskView) -> schemas.TaskAnswer:
    task = view.task
    folder = view.folders.get(task.latest_attempt_no)
    return answer_of(
        schemas.TaskAnswer,
        task,
        view,
        **_write_view(view),
        jobspec=task.spec_text,
        position=None if view.ahead is None else view.ahead + 1,
        attempts=[_describe_attempt(view, attempt) for attempt in view.attempts],
        artifacts=[
            schemas.ArtifactAnswer(path=path, file=f"{folder.path}/{path}" if folder else path)
            for path in view.artifacts
        ],
        conversions=[conversion(item) for item in view.conversions],
        checkpoints=_describe_folder(view.checkpoints),
        links=_build_links(task.task_id),
    )


def describe_resubmission(view: TaskView, changes: Sequence[Difference]) -> schemas.TaskAgainAnswer:
    """changes: between the task that it was made of and this one."""
    return schemas.TaskAgainAnswer(**dict(describe_task(view)), changes=_describe_changes(changes))


def _describe_changes(changes: Sequence[Difference]) -> list[schemas.ChangeAnswer]:
    return [schemas.ChangeAnswer(field=one.field, before=one.values[0], after=one.values[1]) for one in changes]


def conversion(conversion: Conversion) -> schemas.ConversionAnswer:
    job, page = (f"/jobs/{conversion.job_id}", f"/ui/jobs/{conversion.job_id}") if conversion.job_id else (None, None)
    return answer_of(schemas.ConversionAnswer, conversion, job=job, page=page)


def task_model(model: RegisteredModel) -> schemas.TaskModelAnswer:
    query = urlencode({"name": f"{model.name}@{model.version}"})
    return schemas.TaskModelAnswer(
        name=model.name, version=model.version, model=f"/api/v2/models/named?{query}", page=f"/ui/models/named?{query}"
    )


def event(event: TaskEvent) -> schemas.EventAnswer:
    return schemas.EventAnswer(event_id=event.event_id, ts=event.at, event_type=event.kind, payload=event.detail)


def checkpoints(checkpoints: Sequence[Checkpoint], ranking: CheckpointRanking) -> schemas.CheckpointsAnswer:
    return schemas.CheckpointsAnswer(
        metric=ranking.metric,
        checkpoints=[
            answer_of(
                schemas.CheckpointAnswer,
                one,
                written_at=to_text(one.written_at),
                value=ranking.values.get(one.step),
                is_best=one.step == ranking.best,
            )
            for one in checkpoints
        ],
    )


def sweep(view: SweepView) -> sweep_schemas.SweepAnswer:
    return answer_of(
        sweep_schemas.SweepAnswer,
        view,
        tasks=[answer_of(sweep_schemas.SweepTaskAnswer, row.task, row) for row in view.rows],
    )


def describe_sweep_again(view: SweepView, changes: Sequence[Difference]) -> sweep_schemas.SweepAgainAnswer:
    """changes: between the sweep that it was made of and this one."""
    return sweep_schemas.SweepAgainAnswer(**dict(sweep(view)), changes=_describe_changes(changes))


def metrics(curves: TaskCurves, names: Sequence[str], most_points: int) -> schemas.MetricsAnswer:
    """names: those wanted with their points; none: all."""
    chosen = {name: curve for name, curve in curves.curves.items() if not names or name in names}
    return schemas.MetricsAnswer(
        names=sorted(curves.curves),
        rows=curves.row_count,
        unreadable=curves.unreadable_count,
        is_cut=curves.is_cut,
        summary=dict(curves.summary),
        series=[_describe_series(name, curve, most_points) for name, curve in chosen.items()],
    )


def metrics_csv(curves: TaskCurves) -> str:
    """One row a point: metric, step, seconds since the first row (empty if unknown), value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["metric", "step", "time_s", "value"])
    for name, curve in curves.curves.items():
        for at in range(len(curve)):
            step, value, time_s = curve[at]
            writer.writerow([csv_cell(name), f"{step:g}", "" if math.isnan(time_s) else f"{time_s:.3f}", repr(value)])
    return out.getvalue()


def _describe_series(name: str, curve: Curve, most_points: int) -> schemas.SeriesAnswer:
    best = best_of(name, curve)
    places = thin_places(curve.values, most_points)
    return answer_of(
        schemas.SeriesAnswer,
        name=name,
        count=len(curve),
        steps=[curve.steps[at] for at in places],
        values=[curve.values[at] for at in places],
        times_s=[curve.times_s[at] for at in places] if curve.has_times else None,
        best=best,
    )


def stacks(stacks: Sequence[ProcessStack]) -> schemas.StacksAnswer:
    return answer_of(schemas.StacksAnswer, stacks=stacks)


def cluster(
    views: Mapping[str, ClusterView | None], user: str, *, is_on: bool, is_admin: bool = False
) -> cluster_schemas.ClusterAnswer:
    """Who holds how much is for all to see; which task it is, for its user and administrators alone.

    Args:
        views: By name, the default cluster first; None: the scheduler has not looked yet. Empty if training is off.
        is_on: training is configured.
    """
    default, *further = [
        _describe_cluster(name, view, user, is_admin=is_admin) for name, view in (views or {"": None}).items()
    ]
    return cluster_schemas.ClusterAnswer(**dict(default), is_on=is_on, further=further)


def _describe_cluster(
    name: str, view: ClusterView | None, user: str, *, is_admin: bool
) -> cluster_schemas.OneClusterAnswer:
    if view is None:
        return cluster_schemas.OneClusterAnswer(
            name=name, seen_at=None, unreachable_since=None, problem="", nodes=[], holders=[], queued=0, first=None
        )
    first = view.first
    is_first_own = first is not None and (is_admin or first.user == user)
    return answer_of(
        cluster_schemas.OneClusterAnswer,
        view,
        name=name,
        nodes=[{**vars(node), "use": view.use.get(node.node_id)} for node in view.nodes],
        holders=[_describe_holder(held, is_own=is_admin or held.user == user) for held in view.holders],
        first=answer_of(
            cluster_schemas.FirstInLineAnswer, first, **({} if is_first_own else {"task_id": None, "after_task": None})
        )
        if first
        else None,
    )


def _describe_holder(held: Holder, *, is_own: bool) -> cluster_schemas.HolderAnswer:
    hidden = {} if is_own else {"task_id": None, "state": None}
    return answer_of(cluster_schemas.HolderAnswer, held, **hidden)


def _describe_attempt(view: TaskView, attempt: Attempt) -> schemas.AttemptAnswer:
    return answer_of(
        schemas.AttemptAnswer,
        attempt,
        ray_submission_id=attempt.submission_id,
        start_time=attempt.started_at,
        end_time=attempt.ended_at,
        folder=_describe_folder(view.folders.get(attempt.attempt_no)),
    )


def _describe_folder(folder: AttemptFolder | None) -> schemas.FolderAnswer | None:
    if folder is None:
        return None
    return answer_of(
        schemas.FolderAnswer, folder, trash_at=_format_moment(folder.trash_at), purge_at=_format_moment(folder.purge_at)
    )


def _build_links(task_id: str) -> schemas.LinksAnswer:
    place, page = f"{TASKS}/{task_id}", f"/ui/tasks/{task_id}"
    return schemas.LinksAnswer(
        task=place,
        page=page,
        log_page=f"{page}/logs",
        logs=f"{place}/logs",
        metrics=f"{place}/metrics",
        checkpoints=f"{place}/checkpoints",
        events=f"{place}/events",
        spec=f"{place}/spec",
        cancel=f"{place}/cancel",
        release=f"{place}/release",
        convert=f"{place}/convert",
        export=f"{place}/export",
    )


def _format_moment(moment: datetime | None) -> str | None:
    return to_text(moment) if moment else None
