"""The JSON API of sweeps: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.sweeps import schemas
from app.sweeps.access import sweeps_of
from app.sweeps.schemas import SWEEPS

_SWEEP = SWEEPS + "/{sweep_id}"
OPERATIONS = Operations({"sweep_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"}})


@OPERATIONS.post(
    SWEEPS,
    "Start a sweep: convert every model with every set of options, as capacity permits",
    {201: schemas.SweepAnswer},
    more_errors=(429,),
)
def create_sweep(request: Request, body: schemas.NewSweep) -> Response:
    models, variants = body.parts()
    sweeps, user = sweeps_of(request), user_of(request)
    sweep_id = sweeps.begin(user, models, variants, name=body.name, tags=body.tags, no_cache=body.no_cache)
    return json_answer(schemas.sweep_answer(sweeps.view(user, sweep_id)), 201, {"Location": f"{SWEEPS}/{sweep_id}"})


@OPERATIONS.get(SWEEPS, "List my sweeps, newest first", schemas.SweepsAnswer)
def list_sweeps(request: Request, params: schemas.SweepsQuery) -> Response:
    page, cursor = sweeps_of(request).page(user_of(request), cursor=params.cursor, limit=params.limit)
    listed = [schemas.describe_sweep(sweep, counts) for sweep, counts in page]
    return json_answer(schemas.SweepsAnswer(sweeps=listed, next_cursor=cursor))


@OPERATIONS.get(_SWEEP, "Get a sweep as a table", schemas.SweepAnswer, version_fields=("name", "tags", "has_ended"))
def get_sweep(request: Request, sweep_id: str) -> Response:
    return json_answer(schemas.sweep_answer(sweeps_of(request).view(user_of(request), sweep_id)))


@OPERATIONS.get(f"{_SWEEP}/table.csv", "Get the table of a sweep as CSV", ("text/csv",))
def get_sweep_table(request: Request, sweep_id: str) -> Response:
    view = sweeps_of(request).view(user_of(request), sweep_id)
    return schemas.csv_answer(schemas.table_of(view.rows), f"sweep-{view.sweep.sweep_id[:8]}.csv")


@OPERATIONS.post(f"{_SWEEP}/cancel", "Cancel the jobs of a sweep, and submit no more", schemas.SweepAnswer)
def cancel_sweep(request: Request, sweep_id: str) -> Response:
    return json_answer(schemas.sweep_answer(sweeps_of(request).cancel(user_of(request), sweep_id)))


@OPERATIONS.delete(_SWEEP, "Delete a sweep; its jobs stay")
def delete_sweep(request: Request, sweep_id: str) -> None:
    sweeps_of(request).delete(user_of(request), sweep_id)
