"""Load, memory, disk and accelerators of this machine, as a node reports them."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import psutil

from app.inference.installed_providers import list_installed_providers
from app.nodes.model import NodeReport

NVIDIA = Path("/proc/driver/nvidia")
_CHIPS = {
    0x100: "Kneron KL520",
    0x200: "Kneron KL720",
    0x720: "Kneron KL720",
    0x630: "Kneron KL630",
    0x732: "Kneron KL730",
}
"""Names by USB product id."""


def host_report(data: Path) -> NodeReport:
    """Returns a report of this machine without its workers. The CPU's share is that since the last call.

    Args:
        data: a folder on the disk whose free bytes are reported.
    """
    memory = psutil.virtual_memory()
    return NodeReport(
        cpu=min(1.0, psutil.cpu_percent(None) / 100),
        memory=memory.percent / 100,
        load=os.getloadavg()[0],
        memory_bytes=memory.total,
        cores=len(os.sched_getaffinity(0)),
        free_disk_bytes=psutil.disk_usage(str(data)).free,
        accelerators=accelerators(),
        providers=providers(),
    )


def kinds_of_processes(kinds: Mapping[int, str]) -> dict[int, str]:
    """Returns the kind of work of each process of the workers, each of which has a session of its own.

    Args:
        kinds: of the workers, by pid.
    """
    processes = dict[int, str]()
    for pid in psutil.pids() if kinds else ():
        with contextlib.suppress(OSError):  # it has ended
            if kind := kinds.get(os.getsid(pid)):
                processes[pid] = kind
    return processes


@lru_cache(maxsize=1)
def accelerators() -> tuple[str, ...]:
    """Returns the names of devices that could run a model instead of the CPU, as of the agent's start."""
    return (*_list_kneron(), *_list_nvidia(NVIDIA))


@lru_cache(maxsize=1)
def providers() -> tuple[str, ...]:
    """Returns the execution providers that onnxruntime was built with, as of the agent's start."""
    return list_installed_providers()


def _list_kneron() -> tuple[str, ...]:
    """Asks Kneron's own package, if it is installed and has access to USB."""
    if importlib.util.find_spec("kp") is None:
        return ()
    try:
        kp = importlib.import_module("kp")  # the vendor's package, which no package index has
        devices = kp.core.scan_devices().device_descriptor_list
        return tuple(_CHIPS.get(int(device.product_id), "Kneron NPU") for device in devices)
    except Exception:  # noqa: BLE001  # a vendor's native library, of any version
        return ()


def _list_nvidia(folder: Path) -> tuple[str, ...]:
    """Reads the driver's `information` files."""
    cards = list[str]()
    for file in sorted(folder.glob("gpus/*/information")):
        with contextlib.suppress(OSError):
            lines = dict(line.partition(":")[::2] for line in file.read_text("utf-8", "replace").splitlines())
            cards.append(lines.get("Model", "NVIDIA").strip())
    return tuple(cards) or (("NVIDIA",) if folder.is_dir() else ())
