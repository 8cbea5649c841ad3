"""How the requirement's endpoints read bodies and return errors: {"status": 1, "error": sentence}."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import redis
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.kit.errors import BadInput, BadRequest, ModelmillError, Unavailable
from app.kit.text.json_values import JsonObject
from app.kit.web.http import Model, checked, retry_after
from app.kit.web.request_body import read_whole_body
from app.nodes.wire import read
from app.video.errors import as_refusal

MAX_JSON_BYTES = 1 << 20
Endpoint = Callable[[Request], Awaitable[Response]]
logger = logging.getLogger(__name__)


def in_requirement_form(endpoint: Endpoint, name: str) -> Endpoint:
    """The endpoint with errors in the requirement's form. A wrong field is 400: the requirement has no 422.

    Args:
        name: Of the route.
    """

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ModelmillError as error:
            return refusal(error)
        except redis.RedisError as error:
            logger.warning("Redis: %s", error)
            return refusal(Unavailable("Redis does not answer.", hint="Try again in a moment."))

    answer.__name__ = name
    return answer


def refusal(error: ModelmillError) -> Response:
    status = BadRequest.status if error.status == BadInput.status else error.status
    return JSONResponse(as_refusal(error.to_dict()), status_code=status, headers=retry_after(error))


async def read_body(request: Request, model: type[Model]) -> tuple[Model, JsonObject]:
    """Returns the body as this model, and as it came.

    Raises:
        BadFrame: It is no JSON object.
        BadInput: It has another form.
        TooLarge: It exceeds the limit.
    """
    body = read(await read_whole_body(request, MAX_JSON_BYTES, "A JSON body"))
    return checked(lambda: model.model_validate(body)), body


def done(**more: Any) -> Response:
    return JSONResponse({"status": 0, **more})


class Lenient(BaseModel):
    """Unknown keys are ignored: clients may send what the origin knew beside."""
