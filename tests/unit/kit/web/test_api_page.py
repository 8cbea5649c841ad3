from __future__ import annotations

from typing import Any

from app.kit.web.api_page import DescribedAnswer, groups


def described(**responses: tuple[str, str]) -> dict[str, Any]:
    """A document with one call that answers so: by status what it means, and the name of its schema."""
    answers = {
        status.removeprefix("_"): {
            "description": meaning,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}} if schema else {},
        }
        for status, (meaning, schema) in responses.items()
    }
    operation = {"operationId": "call", "tags": ["things"], "responses": answers}
    return {"paths": {"/api/v2/things": {"get": operation}}, "components": {"schemas": {}}}


def test_errors_that_say_no_more_than_their_status_are_one_line() -> None:
    document = described(
        _200=("OK", "Things"),
        _204=("No Content", ""),
        _401=("Unauthorized", "Refusal"),
        _404=("Not Found", "Refusal"),
        _409=("The thing is in use.", "Refusal"),
        _460=("The node does not know the thing.", "Refusal"),
        _503=("Service Unavailable", "Other"),
    )
    [call] = groups(document, "http://here")["things"]
    assert call.answers == [
        DescribedAnswer(["200"], "OK", "Things"),
        DescribedAnswer(["204"], "No Content", ""),
        DescribedAnswer(["401", "404"], "", "Refusal"),
        DescribedAnswer(["409"], "The thing is in use.", "Refusal"),
        DescribedAnswer(["460"], "The node does not know the thing.", "Refusal"),
        DescribedAnswer(["503"], "", "Other"),
    ]
