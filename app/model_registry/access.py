"""What every endpoint of models needs of a request."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.model_registry.service import Models

models_of = FromContainer[Models]("models")
