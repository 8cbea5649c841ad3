"""The API groups that offer services: the requirement's and, as an alias with the same objects, Sedna's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from app.joint_inference.model.crd import SPEC_SCHEMA
from app.joint_inference.model.resource import GROUP, KIND, PLURAL, SHORT_NAMES, VERSION
from app.joint_inference.sedna import SEDNA_GROUP, sedna_schema, to_sedna
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True, eq=False)
class ApiGroup:
    """A group, and how it spells a resource."""

    name: str
    schema_prefix: str
    """Of its schemas' names in OpenAPI."""
    spec_schema: JsonObject
    present: Callable[[JsonObject], JsonObject]
    """Returns a resource of the requirement's spelling in that of the group."""
    short_names: tuple[str, ...] = ()
    """One group alone has them, so that they mean one resource."""

    @property
    def api_version(self) -> str:
        return f"{self.name}/{VERSION}"

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}"

    @property
    def qualified(self) -> str:
        return f"{PLURAL}.{self.name}"

    @property
    def kind(self) -> JsonObject:
        return {"group": self.name, "kind": KIND, "version": VERSION}


NEPTUNE = ApiGroup(GROUP, "io.neptune.v1alpha1", SPEC_SCHEMA, lambda resource: resource, SHORT_NAMES)
GROUPS = (NEPTUNE, ApiGroup(SEDNA_GROUP, "io.sedna.v1alpha1", sedna_schema(SPEC_SCHEMA), to_sedna))
"""The preferred one first, which tools take for a name without a group."""


def group_of(request: Request) -> ApiGroup:
    """Returns the group in the path of a request; the preferred one for a path without any."""
    _, _, below = request.url.path.partition("/apis/")
    return next((group for group in GROUPS if below.split("/")[0] == group.name), NEPTUNE)
