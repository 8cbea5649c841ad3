"""What every endpoint of notifications needs of a request."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.notifications.service import Notifications

notifications_of = FromContainer[Notifications]("notifications")
