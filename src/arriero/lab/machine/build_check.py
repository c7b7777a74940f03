"""check_build: what is wrong with a build of llama.cpp here, one line each."""

from pathlib import Path

from arriero.lab.machine.survey import feature_difference
from arriero.record.cpu_lab.build_pin import BuildPin, pin_differences
from arriero.record.cpu_lab.environment import LibraryFacts
from arriero.record.machine import ROOT


def check_build(facts: LibraryFacts, pin: BuildPin | None, root: Path = ROOT) -> tuple[str, ...]:
    """Differences from this CPU, from one folder of libraries, and from a pin.

    A pin that states the features decides them: a build that leaves instructions of this CPU unused on purpose is as
    pinned. Instructions that the CPU lacks are told whatever a pin says.

    Args:
        facts: of the build.
        pin: what it has to be; None checks it by itself.
        root: where `proc` is.
    """
    difference = feature_difference(facts, root)
    lines = [f"cpu: the build needs {name}, which this CPU lacks" for name in difference.lacking_in_cpu]
    if pin is None or pin.features is None:
        lines += [f"cpu: the build does not use {name} of this CPU" for name in difference.unused_by_build]
    lines += [f"files: {name} lies in another folder than libllama: two builds are mixed" for name in facts.strays]
    return (*lines, *(() if pin is None else pin_differences(pin, facts)))
