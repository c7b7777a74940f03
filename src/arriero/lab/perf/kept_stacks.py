"""Folded stacks beside a record: written with it, checked by their hash when they are read."""

import hashlib
from typing import Final

from arriero.lab.perf.profiler import Scratch
from arriero.record.cpu_lab.folded_stacks import FoldedStacks
from arriero.record.cpu_lab.perf_attribution import StacksFile
from arriero.record.cpu_lab.run_log import replace_file

SUFFIX: Final = ".folded"


def keep_stacks(stacks: FoldedStacks, scratch: Scratch) -> StacksFile:
    """Write the stacks of one invocation into the folder of its run; a file of an earlier try is replaced."""
    data = stacks.encode()
    name = f"{scratch.stem}{SUFFIX}"
    replace_file(scratch.kept / name, data)
    return StacksFile(
        name=name, sha256=hashlib.sha256(data).hexdigest(), num_stacks=len(stacks.stacks), weight=stacks.weight
    )
