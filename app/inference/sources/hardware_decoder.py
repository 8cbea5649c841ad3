"""Decoding video by the hardware of this machine, as far as it and PyAV's FFmpeg can. Each process finds out once."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

DEVICES: Mapping[str, str] = {"cuda": "NVDEC", "vaapi": "VAAPI", "qsv": "Quick Sync", "videotoolbox": "VideoToolbox"}
"""FFmpeg's names of the kinds of devices, the preferred first, and what people call them."""
M2M, M2M_NAME = "v4l2m2m", "V4L2 M2M"
"""FFmpeg's decoders with this name use a device of a small board, such as /dev/video10. They are used on request only,
since no such board was at hand to try one."""
CODEC = "h264"
"""The format by which a device is tried; one that cannot decode another is not used for that."""
VARIABLE = "MODELMILL_HARDWARE_DECODING"
"""The environment variable that says `off`, or `v4l2m2m`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HardwareDecoder:
    """What decodes video on this machine."""

    device: str = ""
    """A key of DEVICES; empty: software."""
    reason: str = ""
    """Why it is software."""

    @property
    def text(self) -> str:
        names = {**DEVICES, M2M: M2M_NAME}
        return names[self.device] if self.device else f"software ({self.reason})"

    def options(self) -> dict[str, Any]:
        """Returns the arguments of av.open. FFmpeg itself falls back to software for what the device cannot decode."""
        if self.device not in DEVICES:
            return {}
        from av.codec.hwaccel import HWAccel

        return {"hwaccel": HWAccel(self.device, allow_software_fallback=True)}

    def context_of(self, stream: Any) -> Any:
        """Returns the decoder of a stream of PyAV: one of V4L2 M2M if that was requested and knows the format, or else
        the stream's own."""
        own = stream.codec_context
        if self.device != M2M:
            return own
        try:
            return _open_m2m(own.name, own.width, own.height, own.extradata)
        except Exception as error:  # noqa: BLE001  # as below
            logger.info("%s is decoded by software, for %s cannot: %s", own.name, M2M_NAME, error)
            return own


@cache
def hardware_decoder() -> HardwareDecoder:
    """Returns the first kind of device that opens here.

    Raises:
        ImportError: PyAV is not installed.
    """
    import av
    from av.codec.hwaccel import HWAccel, hwdevices_available

    choice = os.environ.get(VARIABLE, "").lower()
    if choice == "off":
        return HardwareDecoder(reason=f"{VARIABLE} is off")
    if choice == M2M:
        return _find_m2m_decoder()
    problems, known = list[str](), set(hwdevices_available())
    for device, name in DEVICES.items():
        if device not in known:
            continue
        try:
            HWAccel(device).create(av.Codec(CODEC, "r"))
        except NotImplementedError:
            continue
        except Exception as error:  # noqa: BLE001  # a vendor's driver, of any version
            problems.append(f"{name}: {getattr(error, 'strerror', None) or type(error).__name__}")
        else:
            return HardwareDecoder(device)
    return HardwareDecoder(reason="; ".join(problems) or "this FFmpeg supports none of the machine's devices")


def _find_m2m_decoder() -> HardwareDecoder:
    try:
        _open_m2m(CODEC, 640, 480, None)
    except Exception as error:  # noqa: BLE001  # a vendor's driver, of any version
        return HardwareDecoder(reason=f"{M2M_NAME}: {getattr(error, 'strerror', None) or error}")
    return HardwareDecoder(M2M)


def _open_m2m(codec: str, width: int, height: int, extradata: bytes | None) -> Any:
    """A decoder that has opened a device. Raises what PyAV and the driver raise."""
    import av

    context = av.CodecContext.create(f"{codec}_{M2M}", "r")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height, context.extradata = width, height, extradata
    context.open()
    return context
