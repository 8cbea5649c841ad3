"""Decoding video by the hardware of this machine, as far as it and PyAV's FFmpeg can. Each process finds out once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

DEVICES: Mapping[str, str] = {"cuda": "NVDEC", "vaapi": "VAAPI", "qsv": "Quick Sync", "videotoolbox": "VideoToolbox"}
"""FFmpeg's names of the kinds of devices, the preferred first, and what people call them."""
CODEC = "h264"
"""The format by which a device is tried; one that cannot decode another is not used for that."""
VARIABLE = "MODELMILL_HARDWARE_DECODING"
"""The environment variable that says `off`."""


@dataclass(frozen=True)
class HardwareDecoder:
    """What decodes video on this machine."""

    device: str = ""
    """A key of DEVICES; empty: software."""
    reason: str = ""
    """Why it is software."""

    @property
    def text(self) -> str:
        return DEVICES[self.device] if self.device else f"software ({self.reason})"

    def options(self) -> dict[str, Any]:
        """Returns the arguments of av.open. FFmpeg itself falls back to software for what the device cannot decode."""
        if not self.device:
            return {}
        from av.codec.hwaccel import HWAccel

        return {"hwaccel": HWAccel(self.device, allow_software_fallback=True)}


@cache
def hardware_decoder() -> HardwareDecoder:
    """Returns the first kind of device that opens here. Raises ImportError without PyAV."""
    import av
    from av.codec.hwaccel import HWAccel, hwdevices_available

    if os.environ.get(VARIABLE, "").lower() == "off":
        return HardwareDecoder(reason=f"{VARIABLE} is off")
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
