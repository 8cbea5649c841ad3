"""A client of the API of video for programs and the command line. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from app.kit.text.json_values import JsonObject
from app.results.client import ResultsClient

VIDEO = "/api/v2/video"
JOBS = f"{VIDEO}/jobs"
SETS = f"{VIDEO}/job-sets"


class VideoClient(ResultsClient):
    """Its errors are those of ApiClient; rows, rules and sinks by path_of."""

    def submit(self, job: JsonObject) -> JsonObject:
        """job: the body of POST /api/v2/video/jobs."""
        return self._json("POST", JOBS, json=job)

    def add_set(self, job_set: JsonObject) -> JsonObject:
        """job_set: the body of POST /api/v2/video/job-sets."""
        return self._json("POST", SETS, json=job_set)

    def sets(self) -> list[JsonObject]:
        """Newest first."""
        return list(self._json("GET", SETS)["job_sets"])

    def job_set(self, set_id: str) -> JsonObject:
        return self._json("GET", f"{SETS}/{quote(set_id, safe='')}")

    def remove_set(self, set_id: str) -> None:
        self._delete(f"{SETS}/{quote(set_id, safe='')}")

    def profile(self, video: JsonObject) -> JsonObject:
        """Submits a job that measures stages.

        Args:
            video: {node, video_id, dag or stages}.
        """
        return self._json("POST", f"{VIDEO}/profile", json=video)

    def job(self, uid: str) -> JsonObject:
        return self._json("GET", path_of(uid))

    def jobs(self, *, limit: int = 50, **filters: str | None) -> Iterator[JsonObject]:
        """Newest first, page by page, at most `limit`.

        Args:
            filters: state, q.
        """
        yield from self._pages(JOBS, "jobs", limit=limit, filters=filters)

    def rename(self, uid: str, name: str) -> JsonObject:
        return self._json("PATCH", path_of(uid), json={"name": name})

    def cancel(self, uid: str) -> JsonObject:
        return self._json("POST", f"{path_of(uid)}/cancel")

    def delete(self, uid: str) -> None:
        self._delete(path_of(uid))

    def constrain(self, uid: str, constraint: JsonObject) -> JsonObject:
        return self._json("PUT", f"{path_of(uid)}/constraint", json=constraint)

    def choose(self, uid: str, policy: str) -> JsonObject:
        return self._json("PUT", f"{path_of(uid)}/policy", json={"policy": policy})

    def give(self, uid: str, plan: JsonObject) -> JsonObject:
        """plan: {video_conf, flow_mapping}."""
        return self._json("PUT", f"{path_of(uid)}/plan", json=plan)

    def record(self, uid: str, recording: JsonObject | None) -> JsonObject:
        """recording: {hours, megabytes, fps, width}; None: no longer."""
        return self._json("PUT", f"{path_of(uid)}/recording", json={"recording": recording})

    def recording(self, uid: str) -> JsonObject:
        """{begins_at, ends_at, size_bytes, core_share, problem}"""
        return self._json("GET", f"{path_of(uid)}/recording")

    def clip(self, uid: str, *, event_id: int | None = None, since: str = "", until: str = "") -> Iterator[bytes]:
        """Yields a clip of a job's recording, piece by piece.

        Args:
            event_id: of an event of its rules; None: of the time from `since` to `until`, ISO 8601.
        """
        path = f"{path_of(uid)}/clip" if event_id is None else f"{path_of(uid)}/rule-events/{event_id}/clip"
        span = {"since": since, "until": until} if event_id is None else {}
        with self._answer("GET", path, params=span) as answer:
            yield from answer.iter_bytes()

    def events(self, uid: str) -> list[JsonObject]:
        """Oldest first."""
        return list(self._json("GET", f"{path_of(uid)}/events")["events"])

    def decisions(self, uid: str, *, limit: int = 100) -> list[JsonObject]:
        """Newest first."""
        return list(self._json("GET", f"{path_of(uid)}/decisions", params={"limit": limit})["decisions"])

    def nodes(self) -> list[JsonObject]:
        return list(self._json("GET", f"{VIDEO}/nodes")["nodes"])

    def kinds(self) -> JsonObject:
        return self._json("GET", f"{VIDEO}/kinds")

    def policies(self) -> JsonObject:
        return self._json("GET", f"{VIDEO}/policies")

    def stages(self) -> list[JsonObject]:
        return list(self._json("GET", f"{VIDEO}/stages")["stages"])

    def put_stage(self, name: str, stage: JsonObject) -> JsonObject:
        """stage: {kind, models, parameters}."""
        return self._json("PUT", _build_stage_path(name), json=stage)

    def stage_access(self, name: str) -> JsonObject:
        """{allowed}: names of users and @groups, or None for everybody."""
        return self._json("GET", f"{_build_stage_path(name)}/access")

    def put_stage_access(self, name: str, allowed: list[str] | None) -> JsonObject:
        return self._json("PUT", f"{_build_stage_path(name)}/access", json={"allowed": allowed})

    def remove_stage(self, name: str) -> None:
        self._delete(_build_stage_path(name))

    def what_if(self, question: JsonObject) -> list[JsonObject]:
        """Predictions, fastest first."""
        return list(self._json("POST", f"{VIDEO}/what-if", json=question)["predictions"])

    def measurements(self, **filters: str | None) -> list[JsonObject]:
        """filters: node, stage."""
        params = {key: value for key, value in filters.items() if value}
        return list(self._json("GET", f"{VIDEO}/profile", params=params)["measurements"])


def path_of(uid: str) -> str:
    return f"{JOBS}/{quote(uid, safe='')}"


def _build_stage_path(name: str) -> str:
    return f"{VIDEO}/stages/{quote(name, safe='')}"
