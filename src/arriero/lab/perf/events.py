"""The events that are looked for, and those that every program must make some of."""

from typing import Final

EVENTS: Final = (
    "task-clock",
    "cpu-clock",
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
    "cache-references",
    "cache-misses",
    "context-switches",
    "cpu-migrations",
    "page-faults",
    "minor-faults",
    "major-faults",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "LLC-loads",
    "LLC-load-misses",
)

NEVER_ZERO: Final = frozenset({
    "task-clock", "cpu-clock", "cycles", "instructions", "branches", "cache-references", "page-faults", "minor-faults",
    "L1-dcache-loads",
})  # fmt: skip
"""A program that starts and ends has some of these, so that 0 is no count."""

STEADY: Final = frozenset({"instructions", "branches", "page-faults", "minor-faults"})
"""The same trivial program has about as many of these each time."""
