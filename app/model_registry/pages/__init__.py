"""The pages of models: each endpoint parses the request, calls one use case and renders. `ROUTES` lists them."""

from __future__ import annotations

from app.model_registry.pages import models, new

ROUTES = [*models.ROUTES, *new.ROUTES]
