"""The pages of models: endpoints parse, call one use case, render. ROUTES is their table."""

from __future__ import annotations

from app.model_registry.pages import models, new

ROUTES = [*models.ROUTES, *new.ROUTES]
