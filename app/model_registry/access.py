"""Request dependencies shared by all endpoints of models."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.model_registry.service import Models

models_of = FromContainer[Models]("models")
