"""Typed access to the objects of an application: the only module that reads `app.state`, which has no types.

The owner of an object declares its accessor beside it; endpoints and middleware call that with their request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection

    from app.kit.objects.base import ObjectStore

T = TypeVar("T")


class AppState(Generic[T]):
    """An object of the web application: `limits_of = AppState[UploadLimits]("upload_limits")`."""

    def __init__(self, name: str, make: Callable[[], T] | None = None) -> None:
        """
        Args:
            name: its name in the application's state.
            make: creates it on first use. Without it, the application sets it.
        """
        self.name = name
        self._make = make

    def __call__(self, connection: HTTPConnection) -> T:
        return self.held(connection.app)

    def held(self, app: Starlette) -> T:
        if self._make is not None and not hasattr(app.state, self.name):
            setattr(app.state, self.name, self._make())
        return cast("T", getattr(app.state, self.name))

    def put(self, app: Starlette, value: T) -> None:
        setattr(app.state, self.name, value)


class FromContainer(Generic[T]):
    """An object of the application's container: `conversion_of = FromContainer[Conversion]("conversion")`."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: the name of the container's field or property.
        """
        self.name = name

    def __call__(self, connection: HTTPConnection) -> T:
        return self.held(connection.app)

    def held(self, app: Starlette) -> T:
        return cast("T", getattr(app.state.container, self.name))


class WebSettings(Protocol):
    """The settings that the kit's own endpoints and middleware read."""

    @property
    def web_url(self) -> str: ...
    @property
    def public_url(self) -> str | None: ...
    @property
    def secret_key(self) -> SecretStr: ...
    @property
    def metrics_token(self) -> SecretStr: ...
    @property
    def max_model_bytes(self) -> int: ...
    @property
    def max_images_bytes(self) -> int: ...


web_settings_of = FromContainer[WebSettings]("settings")
objects_of: FromContainer[ObjectStore] = FromContainer("objects")
features_of = AppState[frozenset[str]]("features", frozenset)
"""The optional features of the installation, set by the application."""
