"""Stores targets and deliveries in SQL. Knows no rules."""

from app.notifications.store import deliveries, targets
