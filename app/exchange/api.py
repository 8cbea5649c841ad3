"""The JSON API of exchange: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.exchange import schemas
from app.exchange.access import exchange_of
from app.exchange.model import Transfer
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_body
from app.kit.web.openapi import Operation

TRANSFER_ID = {"transfer_id": {"type": "string", "format": "uuid"}}
JOB_ID = {"job_id": {"type": "string", "format": "uuid"}}


async def fetch_model(request: Request) -> Response:
    body = await json_body(request, schemas.NewFetch)
    user = user_of(request)
    return _accepted(await run_in_threadpool(exchange_of(request).fetch, user, body.source, now=now()))


async def export_job(request: Request) -> Response:
    body = await json_body(request, schemas.NewExport)
    transfer = await run_in_threadpool(
        exchange_of(request).push,
        user_of(request),
        request.path_params["job_id"],
        body.target,
        registered_model=body.registered_model,
        now=now(),
    )
    return _accepted(transfer)


def get_transfer(request: Request) -> Response:
    return _json(exchange_of(request).get(user_of(request), request.path_params["transfer_id"]))


def _accepted(transfer: Transfer) -> Response:
    return _json(transfer, 202, {"Location": f"/transfers/{transfer.transfer_id}"})


def _json(transfer: Transfer, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    answer = schemas.TransferAnswer.model_validate(transfer.to_json())
    return JSONResponse(answer.model_dump(mode="json"), status_code=status, headers=headers)


OPERATIONS = [
    Operation(
        "POST",
        "/transfers",
        fetch_model,
        "Fetch a model from a hub, a registry, a bucket or a URL",
        {202: schemas.TransferAnswer},
        errors=(400, 413, 422, 503),
        body=schemas.NewFetch,
    ),
    Operation(
        "GET",
        "/transfers/{transfer_id}",
        get_transfer,
        "The state of a transfer",
        {200: schemas.TransferAnswer},
        errors=(404, 503),
        parameters=TRANSFER_ID,
    ),
    Operation(
        "POST",
        "/jobs/{job_id}/exports",
        export_job,
        "Push the results of a job to MLflow or to a hub",
        {202: schemas.TransferAnswer},
        errors=(400, 404, 413, 422, 503),
        body=schemas.NewExport,
        parameters=JOB_ID,
    ),
]
