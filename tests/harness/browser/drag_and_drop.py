"""Files dragged from the desktop into a page: real, trusted events, as the operating system would send them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator


def drop(target: Locator, *files: Path) -> None:
    """Drag files or folders over the middle of the target and let go: by Chromium's protocol, scripts cannot do it."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    session = target.page.context.new_cdp_session(target.page)
    for event in ("dragEnter", "dragOver", "drop"):
        session.send(
            "Input.dispatchDragEvent",
            {
                "type": event,
                "x": box["x"] + box["width"] / 2,
                "y": box["y"] + box["height"] / 2,
                "data": {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1},
            },
        )
    session.detach()
