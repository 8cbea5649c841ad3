"""What every endpoint of training, JSON or page, needs of a request."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.training.service import Training

training_of = FromContainer[Training]("training")
