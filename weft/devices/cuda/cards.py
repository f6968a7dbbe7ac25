"""Check for a usable card with NVIDIA's driver, and explain in words why there is none."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from weft.devices.cuda.nvidia import version_text
from weft.process.distribution import install_command

MIN_CAPABILITY = 80  # compute capability 8.0: tensor cores for bfloat16, and asynchronous copies
_DRIVER = 12_000  # CUDA 12: code that Triton emits runs on drivers from 12.0 on
_MAJOR, _MINOR = 75, 76  # CUDA's attribute numbers
_INSTALL = install_command("gpu")


def no_triton() -> str | None:
    """Return why texts cannot be compiled or interpreted; None if they can."""
    if importlib.util.find_spec("triton") is None:
        return f"Triton is not installed; it compiles code for GPUs: {_INSTALL}"
    try:
        from weft.devices.cuda.adapter import version

        version()
    except Exception as error:  # a broken install fails in any way
        return f"Triton is installed and cannot be imported ({type(error).__name__}: {error}): install it anew, {_INSTALL}"
    return None


def no_bindings() -> str | None:
    """Return why code cannot be launched; None if it can."""
    try:
        spec = importlib.util.find_spec("cuda.bindings")
    except ImportError:  # there is no package ``cuda``
        spec = None
    if spec is None:
        return f"cuda-bindings is not installed; it starts code on GPUs: {_INSTALL}"
    try:
        importlib.import_module("cuda.bindings.driver")
    except RuntimeError as error:  # raised if the driver lacks a function
        return f"NVIDIA's driver is older than cuda-bindings needs ({error}): update the driver"
    except Exception as error:  # a broken install fails in any way
        return f"cuda-bindings is installed and cannot be imported ({type(error).__name__}: {error}): install it anew, {_INSTALL}"
    return None


def why_no_card(load: Callable[[str], Any] = ctypes.CDLL, number: int = 0) -> str | None:
    """Return why a card cannot be used; None if it can."""
    try:
        driver = load("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1 is not found): install the driver, or use another device"
    failed = driver.cuInit(0)
    if failed:
        return f"NVIDIA's driver does not start (cuInit returns {failed}): see whether nvidia-smi works"
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "NVIDIA's driver sees no card: see nvidia-smi and $CUDA_VISIBLE_DEVICES"
    if number >= count.value:
        return f"NVIDIA's driver sees {count.value} card{'' if count.value == 1 else 's'}, counted from gpu:0: see nvidia-smi"
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if version.value < _DRIVER:
        have, needed = version_text(version.value), version_text(_DRIVER)
        return f"NVIDIA's driver is for CUDA {have}, and weft needs one for {needed} or later: update it"
    capability_ = capability(driver, number)
    if capability_ < MIN_CAPABILITY:
        return (
            f"the card has compute capability {capability_ / 10:.1f}, and weft needs {MIN_CAPABILITY / 10:.1f} (Ampere) or later"
        )
    return None


def cards(load: Callable[[str], Any] = ctypes.CDLL) -> list[str]:
    """Return a line for each card: name, memory, compute capability, driver version. Empty without a driver."""
    try:
        driver = load("libcuda.so.1")
    except OSError:
        return []
    count, version = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    driver.cuDriverGetVersion(ctypes.byref(version))
    return [f"{_describe_card(driver, k)}, driver for CUDA {version_text(version.value)}" for k in range(count.value)]


def _describe_card(driver: Any, number: int) -> str:
    name, nbytes = ctypes.create_string_buffer(100), ctypes.c_size_t()
    driver.cuDeviceGetName(name, len(name), number)
    driver.cuDeviceTotalMem_v2(ctypes.byref(nbytes), number)
    gigabytes, kind = nbytes.value / (1 << 30), capability(driver, number) / 10
    return f"{name.value.decode(errors='replace')}, {gigabytes:.1f} GiB, compute capability {kind:.1f}"


def capability(driver: Any, number: int) -> int:
    """Return the compute capability of a card: 90 is 9.0."""
    numbers = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, number)
        numbers.append(value.value)
    return 10 * numbers[0] + numbers[1]
