"""Receives the samples of a calibration that a page, a command or a program sends."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.requests import Request

from app.joint_inference.calibration.service import MAX_SET_BYTES
from app.kit.web.forms import SentFile, receive_form
from app.settings import settings_of

FIELD = "samples"
NO_FILE = SentFile("", Path(os.devnull))


@asynccontextmanager
async def receive_samples(request: Request) -> AsyncIterator[SentFile]:
    """Yields the file, which is deleted afterwards; an empty one if none was sent. It is streamed to the disk.

    Raises:
        BadRequest: The form is damaged.
        TooLarge: It exceeds MAX_SET_BYTES.
    """
    async with receive_form(
        request,
        settings_of(request).work,
        max_bytes=MAX_SET_BYTES,
        too_large=f"A set of samples may have {MAX_SET_BYTES >> 20} MiB.",
        hint="A few hundred pictures are plenty.",
    ) as sent:
        yield sent.files.get(FIELD, [NO_FILE])[-1]
