"""Whether the CPU's own event counters can be had by this process: asks the kernel for one, and gives it back.

In many virtual machines there are none, and in many containers they are not allowed; then profiling falls back to
samples by time. Source of numbers and layout: `linux/perf_event.h`, `perf_event_open(2)`.
"""

import ctypes
import errno
import os
import platform
import struct
from types import MappingProxyType
from typing import Final, NamedTuple

_CALLS: Final = MappingProxyType({"x86_64": 298, "aarch64": 241, "riscv64": 241})
_ATTRIBUTE_BYTES: Final = 64  # version 0 of the structure, which every kernel accepts
_HARDWARE: Final = 0
_INSTRUCTIONS: Final = 1
_USER_SPACE_ONLY: Final = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
_NOT_THERE: Final = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM)


class Events(NamedTuple):
    """The kernel's answer."""

    available: bool | None  # None where it cannot be asked
    reason: str | None  # why they are not available


def probe_events() -> Events:
    """Ask for the number of instructions of this thread."""
    number = _CALLS.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return Events(None, f"the kernel is not asked on {platform.system()} {platform.machine()}")
    # type, size, config, period, sample type, read format, flags, wakeup and the rest
    attribute = struct.pack("=IIQQQQQ", _HARDWARE, _ATTRIBUTE_BYTES, _INSTRUCTIONS, 0, 0, 0, _USER_SPACE_ONLY)
    buffer = ctypes.create_string_buffer(attribute.ljust(_ATTRIBUTE_BYTES, b"\0"), _ATTRIBUTE_BYTES)
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    descriptor: int = call(ctypes.c_long(number), buffer, 0, ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_ulong(0))
    if descriptor < 0:
        return events_refused(ctypes.get_errno())
    os.close(descriptor)
    return Events(available=True, reason=None)


def events_refused(code: int) -> Events:
    """What an error of the call means."""
    if code in _NOT_THERE:
        return Events(available=False, reason="this CPU has no event counters here, as in most virtual machines")
    if code in _NOT_ALLOWED:
        return Events(available=False, reason="not allowed: see kernel.perf_event_paranoid, or the container's profile")
    if code == errno.ENOSYS:
        return Events(available=False, reason="this kernel has no perf events")
    return Events(available=None, reason=f"the kernel refused ({os.strerror(code).lower()})")
