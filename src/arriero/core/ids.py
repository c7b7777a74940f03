"""Names of things that are only compared, never computed with.

`Time` is a number on the driver's own line: whole microseconds of one monotonic clock in the live engine,
whole microseconds from 0 in the simulator. Deciding code compares times, subtracts them and adds durations;
it knows no unit.
"""

from typing import NewType, TypeAlias

RequestId = NewType("RequestId", int)
"""Names one request among those alive; a caller may use the same number again for a later request."""

Epoch = NewType("Epoch", int)
"""Counts submissions of one engine from 1, so that two lives of one request id can be told apart."""

SequenceId = NewType("SequenceId", int)
"""A slot: the llama.cpp sequence id, 0 ... num_sequences - 1."""

SavedKey = NewType("SavedKey", int)
"""Names one run in the host store; whoever keeps the books counts from 1 and never uses a key twice."""

TokenId: TypeAlias = int
Time: TypeAlias = int | float
StepNumber: TypeAlias = int

NO_EPOCH = Epoch(0)
"""The epoch of a request that was handed over without one."""
