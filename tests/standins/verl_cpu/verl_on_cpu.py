"""A platform for the real verl on machines without an accelerator, by verl's own means of adding one:

    VERL_USE_EXTERNAL_MODULES=verl_on_cpu VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda

With engine.strategy=fsdp2 and trainer.device=cpu SFT trains to its end. PPO and GRPO need vLLM besides, and so a GPU.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.plugin.platform.platform_manager import PlatformRegistry


class _Module(SimpleNamespace):
    """torch.cpu, and what else verl asks of torch.cuda."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


NOTHING = _Module(
    empty_cache=lambda: None, memory_allocated=lambda *_: 0, memory_reserved=lambda *_: 0,
    max_memory_allocated=lambda *_: 0, max_memory_reserved=lambda *_: 0, reset_peak_memory_stats=lambda *_: None,
    mem_get_info=lambda *_: (1 << 30, 1 << 31), manual_seed=torch.manual_seed, manual_seed_all=torch.manual_seed,
    get_rng_state=lambda *_: torch.get_rng_state(), set_rng_state=lambda state, *_: torch.set_rng_state(state),
    get_device_name=lambda *_: "cpu", ipc_collect=lambda: None,
    memory=SimpleNamespace(_set_allocator_settings=lambda *_: None),
)


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformCUDA):
    device_name = "cpu"
    vendor_name = "none"
    device_module = NOTHING

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def empty_cache(self) -> None: ...

    def set_allocator_settings(self, settings: str) -> None: ...

    def communication_backend_name(self) -> str:
        return "gloo"

    def nvtx_range(self, msg: str) -> Any:
        return nullcontext()


_begin = torch.distributed.init_process_group


def _once(backend: str | None = None, **more: Any) -> Any:
    """verl names a backend for the CPU and one for the accelerator, which are one here."""
    return _begin("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, **more)


torch.distributed.init_process_group = _once
