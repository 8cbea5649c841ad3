"""The camera that a demonstration shows: one of this machine, or one on the network. Heavy libraries are imported late,
since the commands have the texts from here."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from app.kit.errors import BadInput
from app.kit.network.addresses import without_credentials

CAMERA = "/dev/video0"
CAMERA_HELP = "Use the camera of this machine instead of the generated pictures."
DEVICE_HELP = "With --camera: which camera, such as /dev/video2 or rtsp://…."


def require_camera(camera: str) -> None:
    """Opens the camera for one picture.

    Args:
        camera: A device or a URL.

    Raises:
        BadInput: There is no such device.
        SourceUnusable: The camera cannot be opened or gives no picture, or PyAV is not installed.
    """
    if "://" not in camera and not Path(camera).exists():
        present = ", ".join(sorted(map(str, Path("/dev").glob("video[0-9]*"))))
        raise BadInput(
            f"there is no camera {without_credentials(camera)}",
            hint=f"This machine has {present}: give one with --device."
            if present
            else "This machine has no /dev/video*. A container or virtual machine must be given the device; --device "
            "takes the URL of a camera on the network, too.",
        )
    from app.inference.errors import SourceUnusable
    from app.inference.sources import open_video_source

    with closing(open_video_source(camera)[0].frames()) as frames:
        frame = next(frames, None)
    if frame is None or frame.read is None:
        raise SourceUnusable(f"the camera {without_credentials(camera)} gives no picture")
