# SPDX-License-Identifier: Apache-2.0
"""A CPU platform for verl, which has none: enough of one for tests under Gloo. VERL_PLATFORM=cpu chooses it."""

from __future__ import annotations

import contextlib
import types

import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _Module(types.ModuleType):
    """torch.cpu, and an answer to questions about memory."""

    def __getattr__(self, name):
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        if name == "mem_get_info":
            return lambda *_, **__: (0, 0)
        if name == "get_device_name":
            return lambda *_: "CPU"
        if "memory" in name:
            return lambda *_, **__: 0
        if name in ("empty_cache", "ipc_collect"):
            return lambda: None
        raise AttributeError(name)


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _Module("cpu_module"))
    is_available = lambda self: True
    is_platform_available = lambda self, use_smi_check=False: True
    current_device = lambda self: torch.device("cpu")
    device_count = lambda self: 2
    set_device = lambda self, i: None
    synchronize = lambda self, device_index=None: None
    manual_seed = lambda self, x: torch.manual_seed(x)
    manual_seed_all = lambda self, x: torch.manual_seed(x)
    set_allocator_settings = lambda self, x: None
    empty_cache = lambda self: None
    get_device_capability = lambda self, device_index=0: (None, None)
    communication_backend_name = lambda self: "gloo"
    visible_devices_envvar = lambda self: "CPU_VISIBLE"
    nvtx_range = lambda self, msg: contextlib.nullcontext()
    profiler_start = lambda self: None
    profiler_stop = lambda self: None
    get_device_uuid = lambda self, d: "cpu"
    apply_model_patches = lambda self, m: None
    ray_resource_name = lambda self: "CPU"
    ray_noset_envvars = lambda self: []
    ray_resource_options = lambda self, n: {"num_cpus": 1}
    is_ipc_supported = lambda self: False
    rollout_env_vars = lambda self: {}
    get_collective_module = lambda self: None
    cudart = lambda self: None


_init = torch.distributed.init_process_group


def _init_process_group(backend=None, *arguments, **named):
    """verl asks for "cpu:gloo,cpu:gloo"."""
    return _init("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *arguments, **named)


torch.distributed.init_process_group = _init_process_group
