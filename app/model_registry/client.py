"""A client of the API of models for programs and the command line. Prints nothing. Its errors: see Remote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient
from app.kit.text.json_values import JsonObject

MODELS = "/api/v2/models"
NAMED = f"{MODELS}/named"


class ModelsClient(ApiClient):
    def models(self, *, limit: int = 50, text: str = "") -> Iterator[JsonObject]:
        """Newest first, page by page, at most `limit`."""
        yield from self._pages(MODELS, "models", limit=limit, filters={"q": text})

    def model(self, name: str) -> JsonObject:
        return self._json("GET", NAMED, params={"name": name})

    def add_from_job(
        self,
        name: str,
        job_id: str,
        *,
        artifact: str,
        decoder: str,
        labels: Sequence[str],
        new_version: bool = False,
        note: str = "",
    ) -> JsonObject:
        """Register a job's model. Arguments as of `service.Models.add_from_job`."""
        body = {"name": name, "job_id": job_id, "artifact": artifact, "decoder": decoder, "labels": list(labels)}
        return self._json("POST", MODELS, json={**body, **_build_versioning(new_version, note)})

    def bring(
        self, name: str, path: Path, *, decoder: str, labels: Sequence[str], new_version: bool = False, note: str = ""
    ) -> JsonObject:
        """Register an ONNX from this machine, in constant memory. Arguments as of `service.Models.add_upload`."""
        fields = {"name": name, "decoder": decoder, "labels": "\n".join(labels), **_build_versioning(new_version, note)}
        with path.open("rb") as file:
            return self._json("POST", MODELS, data=fields, files={"model": (path.name, file)})

    def set_decoder(self, name: str, source: str, note: str = "") -> JsonObject:
        """Add a version with this decoder in its file. Arguments as of `service.Models.set_decoder`."""
        return self._json("POST", f"{MODELS}/decoder", params={"name": name}, json={"source": source, "note": note})

    def versions(self, name: str) -> JsonObject:
        return self._json("GET", f"{MODELS}/versions", params={"name": name})

    def set_tag(self, name: str, tag: str, version: int) -> JsonObject:
        return self._json("PUT", _build_tag_path(tag), params={"name": name}, json={"version": version})

    def remove_tag(self, name: str, tag: str) -> None:
        self._delete(_build_tag_path(tag), params={"name": name})

    def shared(self) -> list[JsonObject]:
        """Models of others that the user may use."""
        return list(self._json("GET", f"{MODELS}/shared")["models"])

    def access(self, name: str) -> JsonObject:
        """{allowed}: names of users and @groups, or None for everybody."""
        return self._json("GET", f"{MODELS}/access", params={"name": name})

    def put_access(self, name: str, allowed: list[str] | None) -> JsonObject:
        return self._json("PUT", f"{MODELS}/access", params={"name": name}, json={"allowed": allowed})

    def remove(self, name: str) -> None:
        self._delete(NAMED, params={"name": name})


def _build_versioning(new_version: bool, note: str) -> JsonObject:
    """What is not said is not sent."""
    return {**({"new_version": True} if new_version else {}), **({"note": note} if note else {})}


def _build_tag_path(tag: str) -> str:
    return f"{MODELS}/tags/{quote(tag, safe='')}"
