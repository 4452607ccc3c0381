"""scikit-build-core, told where torch's headers are: those of the environment that installs, or of the build's own.

pip builds in an environment that hides what is installed. Were torch one of the build's requirements, every build
would fetch it, and some gigabytes of CUDA with it; so it is asked for only where none is found.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import pathlib
import sys
import sysconfig
from typing import Any

from scikit_build_core import build as backend
from scikit_build_core.build import (  # noqa: F401
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

TORCH = "torch==2.13.0"


def _torch() -> pathlib.Path | None:
    """The folder of a torch that has the stable ABI's headers."""
    places = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), *sys.path]
    for place in places:
        folder = pathlib.Path(place) / "torch"
        if (folder / "include/torch/csrc/stable/library.h").is_file():
            return folder
    return None


def _settings(settings: dict[str, Any] | None) -> dict[str, Any]:
    name = "cmake.define.ROUTEOPD_TORCH"
    return {name: str(_torch() or ""), **(settings or {})}


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    return backend.get_requires_for_build_wheel(settings) + ([] if _named(settings) or _torch() else [TORCH])


def get_requires_for_build_editable(settings: dict[str, Any] | None = None) -> list[str]:
    return backend.get_requires_for_build_editable(settings) + ([] if _named(settings) or _torch() else [TORCH])


def _named(settings: dict[str, Any] | None) -> bool:
    return "cmake.define.ROUTEOPD_TORCH" in (settings or {})


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    return backend.build_wheel(folder, _settings(settings), metadata)


def build_editable(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    return backend.build_editable(folder, _settings(settings), metadata)
