"""Stopwatch: time spent in the parts of a step, by wrapping the methods that are its parts."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from arriero.backend.library import Function, Library

P = ParamSpec("P")
R = TypeVar("R")


class Taken(NamedTuple):
    """What a stopwatch showed.

    Attributes:
        ns: since the last time.
        spent: of these, by part; parts may lie within one another.
        began: when each part began last, on the stopwatch's clock.
    """

    ns: int
    spent: Mapping[str, int]
    began: Mapping[str, int]


class Stopwatch:
    """Nanoseconds by part since they were last taken; used by one thread."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """Nothing was spent."""
        self._clock = clock
        self._spent: dict[str, int] = {}
        self._began: dict[str, int] = {}
        self._taken_at = clock()

    def timed(self, part: str, call: Callable[P, R]) -> Callable[P, R]:
        """The same function; what it takes counts for the part, whether it returns or raises."""

        @functools.wraps(call)
        def wrapped(*args: P.args, **named: P.kwargs) -> R:
            self._began[part] = began = self._clock()
            try:
                return call(*args, **named)
            finally:
                self._spent[part] = self._spent.get(part, 0) + self._clock() - began

        return wrapped

    def watch(self, owner: object, parts: Mapping[str, str]) -> None:
        """Wrap methods of one object: name -> part."""
        for name, part in parts.items():
            setattr(owner, name, self.timed(part, getattr(owner, name)))

    def take(self) -> Taken:
        """Read it, and begin anew."""
        now = self._clock()
        taken = Taken(now - self._taken_at, self._spent, self._began)
        self._taken_at, self._spent, self._began = now, {}, {}
        return taken


class TimedLibrary(Library):
    """A library some of whose functions count for parts."""

    def __init__(self, library: Library, stopwatch: Stopwatch, parts: Mapping[str, str]) -> None:
        """The same library, opened again; functions by their llama.cpp names."""
        super().__init__(library.structs)
        self._stopwatch = stopwatch
        self._parts = parts

    def long(self, name: str, *, returns: Any = None) -> Function:  # noqa: ANN401 - a ctypes type
        """See `Library.long`."""
        function = super().long(name, returns=returns)
        return self._stopwatch.timed(self._parts[name], function) if name in self._parts else function
