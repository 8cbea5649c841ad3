"""Request dependencies shared by all endpoints of training, JSON and pages."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.training.service import Training

training_of = FromContainer[Training]("training")
