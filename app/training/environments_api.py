"""The JSON API of the environments that tasks run in."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.web.auth import caller_of, only_for_administrators, user_of
from app.kit.web.http import answer_of, json_answer
from app.kit.web.operations import Operations
from app.kit.web.request_body import read_whole_body
from app.training import schemas
from app.training.access import training_of
from app.training.api import body_of
from app.training.service.environments import Environment
from app.training.spec import MAX_SPEC_BYTES
from app.training.spec.environments import EnvironmentSpec

ENVIRONMENTS = "/api/v2/task-environments"
OPERATIONS = Operations()
_require_admin = only_for_administrators("Environments are written by administrators.")


@OPERATIONS.get(
    ENVIRONMENTS,
    "List the environments that my tasks may use, with only the names of their secrets",
    schemas.EnvironmentsAnswer,
)
def list_environments(request: Request) -> Response:
    is_admin = caller_of(request).is_admin
    seen = training_of(request).tasks.environments.seen_by(user_of(request), is_admin=is_admin)
    return json_answer(
        schemas.EnvironmentsAnswer(environments=[_describe_environment(one, is_admin=is_admin) for one in seen])
    )


@OPERATIONS.put(
    f"{ENVIRONMENTS}/{{environment}}",
    "Add or replace an environment; running attempts keep the previous one (administrators)",
    schemas.EnvironmentAnswer,
    more_errors=(403,),
    body=body_of(EnvironmentSpec),
)
async def put_environment(request: Request, environment: str) -> Response:
    _require_admin(request)
    body, environments = await read_whole_body(request, MAX_SPEC_BYTES, "An environment"), training_of(request).tasks
    made = await run_in_threadpool(environments.environments.put, environment, body, by=user_of(request), now=now())
    return json_answer(_describe_environment(made, is_admin=True))


@OPERATIONS.delete(
    f"{ENVIRONMENTS}/{{environment}}",
    "Delete an environment that no unfinished task uses (administrators)",
    more_errors=(403, 409),
)
def delete_environment(request: Request, environment: str) -> None:
    _require_admin(request)
    training_of(request).tasks.environments.delete(environment, by=user_of(request))


def _describe_environment(environment: Environment, *, is_admin: bool) -> schemas.EnvironmentAnswer:
    return answer_of(
        schemas.EnvironmentAnswer,
        environment.spec,
        environment,
        variables=sorted(environment.spec.env),
        secrets=sorted(environment.spec.secrets),
        document=environment.text if is_admin else None,
        updated_by=environment.updated_by if is_admin else None,
    )
