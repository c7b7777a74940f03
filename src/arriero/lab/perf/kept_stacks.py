"""Folded stacks beside a record: written with it, checked by their hash when they are read."""

import hashlib
from typing import Final

from arriero.core.errors import DataError
from arriero.lab.perf.profiler import Scratch
from arriero.record.cpu_lab.folded_stacks import FoldedStacks
from arriero.record.cpu_lab.perf_attribution import StacksFile
from arriero.record.cpu_lab.run_log import replace_file

SUFFIX: Final = ".folded"


def keep_stacks(stacks: FoldedStacks, scratch: Scratch) -> StacksFile:
    """Write the stacks of one invocation into the folder of its run; a file of an earlier try is replaced.

    Raises:
        DataError: the file cannot be written.
    """
    data = stacks.encode()
    path = scratch.kept / f"{scratch.stem}{SUFFIX}"
    try:
        replace_file(path, data)
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise DataError(f"cannot be written ({reason}); make room", file=str(path)) from None
    return StacksFile(
        name=path.name, sha256=hashlib.sha256(data).hexdigest(), num_stacks=len(stacks.stacks), weight=stacks.weight
    )
