"""A server for httpx.MockTransport that gives prepared answers."""

from __future__ import annotations

import httpx

Answer = httpx.Response | Exception


class ScriptedServer:
    """Gives these answers in turn, the last one for ever. An exception is raised, as if the line had broken."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]
