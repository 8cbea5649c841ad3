"""Request dependencies shared by all endpoints of notifications."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.notifications.service import Notifications

notifications_of = FromContainer[Notifications]("notifications")
