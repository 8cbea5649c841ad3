"""Errors that joint inference and video share."""

from __future__ import annotations

from app.inference.errors import DamagedPicture


class BadPicture(DamagedPicture, status=400):
    """A picture in a request is damaged, which is its sender's fault."""
