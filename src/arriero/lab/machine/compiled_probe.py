"""CompiledProbe: ceilings by small C programs, compiled here for this CPU and run in processes of their own."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from arriero.core.errors import ConfigError
from arriero.lab.compile import Compiler
from arriero.lab.machine.ceilings import CeilingPlan, Measured, Tell
from arriero.lab.process import Finished, run_process
from arriero.lab.scratch import scratch_folder
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind

SOURCES: Final = Path(__file__).resolve().parent / "sources"
FLAGS: Final = ("-O3", "-std=gnu11", "-pthread")
NATIVE: Final = ("-march=native", "-mcpu=native")
"""The first one that the compiler takes; x86 knows the former, some compilers for Arm only the latter."""

STREAM: Final = "stream"
PLAIN: Final = "compiler"
PATIENCE_S: Final = 300.0
_NO_SUCH_VARIANT: Final = 4

VARIANTS: Final = MappingProxyType({
    "fp32-avx512f": ("avx512f",),
    "fp32-fma": ("avx2", "fma"),
    "int8-avx512_vnni": ("avx512f", "avx512bw", "avx512_vnni"),
    "int8-avx_vnni": ("avx2", "avx_vnni"),
    "int8-avx2": ("avx2",),
})
"""Variant of `peak.c` -> the kernel's words for what the CPU needs."""

_KINDS: Final = MappingProxyType({
    "read": CeilingKind.READ, "copy": CeilingKind.COPY, "triad": CeilingKind.TRIAD, "int8": CeilingKind.INT8,
    "fp32": CeilingKind.FP32,
})  # fmt: skip


class Run(Protocol):
    """Starts a program and waits for its end, as `run_process` does."""

    def __call__(self, command: Sequence[str], *, timeout_s: float) -> Finished:
        """Run it."""
        ...


class Start(NamedTuple):
    """One program to start."""

    what: str  # it measures: `memory`, or a variant such as `int8-avx2`
    program: Path
    words: tuple[str, ...]
    threads: int


class Sample(NamedTuple):
    """One line of a program."""

    name: str  # `read`, or a variant such as `int8-avx2`
    rate: float  # bytes or operations per second


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProbe:
    """Ceilings by one compiler.

    Attributes:
        compiler: that builds the programs.
        run: starts them.
    """

    compiler: Compiler
    run: Run = run_process

    @property
    def method(self) -> str:
        """In words, for the result."""
        return f"C programs, {self.compiler.name} {self.compiler.number} {' '.join(self._flags())}"

    def measure(self, plan: CeilingPlan, tell: Tell) -> Measured:
        """Build both programs and run them for each number of threads.

        Raises:
            ConfigError: the compiler cannot build them.
        """
        with scratch_folder("ceilings") as folder:
            programs = {name: self._build(name, folder) for name in ("bandwidth", "peak")}
            ceilings: list[Ceiling] = []
            reasons: dict[str, str] = {}
            for start in starts(programs, plan):
                tell(f"{start.what} at {start.threads} threads")
                try:
                    ceilings.extend(self._measured(start))
                except ConfigError as problem:
                    reasons[f"{start.what} at {start.threads} threads"] = str(problem)
        ceilings.sort(key=lambda each: (list(CeilingKind).index(each.kind), each.variant, each.threads or 0))
        return Measured(tuple(ceilings), reasons)

    def _flags(self) -> tuple[str, ...]:
        native = next((flag for flag in NATIVE if self.compiler.takes(flag)), None)
        return FLAGS if native is None else (*FLAGS, native)

    def _build(self, name: str, folder: Path) -> Path:
        return self.compiler.build([SOURCES / f"{name}.c"], self._flags(), folder / name)

    def _measured(self, start: Start) -> Iterator[Ceiling]:
        """The ceilings of one run.

        Raises:
            ConfigError: the program did not end well, or wrote something else.
        """
        ended = self.run([str(start.program), *start.words], timeout_s=PATIENCE_S)
        if ended.return_code == _NO_SUCH_VARIANT:
            raise ConfigError(f"{self.compiler.name} {self.compiler.number} cannot build it")
        if ended.timed_out or ended.return_code != 0:
            raise ConfigError(_failure(ended))
        rates: defaultdict[str, list[float]] = defaultdict(list)
        for sample in samples(ended.stdout):
            rates[sample.name].append(sample.rate)
        for name, values in rates.items():
            kind, _, variant = name.partition("-")
            yield Ceiling(kind=_KINDS[kind], variant=variant or STREAM, threads=start.threads, rates=tuple(values))


def starts(programs: Mapping[str, Path], plan: CeilingPlan) -> Iterator[Start]:
    """What to start, one after another."""
    repetitions = str(plan.repetitions)
    for threads in plan.threads:
        memory = (str(threads), str(plan.array_bytes), repetitions)
        yield Start("memory", programs["bandwidth"], memory, threads)
    for variant in variants_of(plan.isa):
        for threads in plan.threads:
            peak = (variant, str(threads), str(plan.milliseconds), repetitions)
            yield Start(variant, programs["peak"], peak, threads)


def variants_of(isa: Sequence[str]) -> tuple[str, ...]:
    """The variants of `peak.c` that a CPU can run; plain loops for what it has no instructions of ours for."""
    fitting = [name for name, needed in VARIANTS.items() if set(needed) <= set(isa)]
    plain = [f"{kind}-{PLAIN}" for kind in ("fp32", "int8") if not any(name.startswith(kind) for name in fitting)]
    return (*fitting, *plain)


def samples(text: str) -> Iterator[Sample]:
    """The lines `NAME AMOUNT NANOSECONDS` of a program.

    Raises:
        ConfigError: a line is of another form, or there is none.
    """
    lines = text.splitlines()
    if not lines:
        raise ConfigError("the program wrote nothing")
    for line in lines:
        words = line.split()
        amounts = [float(word) for word in words[1:] if word.isdecimal()]
        if len(words) != 3 or len(amounts) != 2 or min(amounts) <= 0 or words[0].partition("-")[0] not in _KINDS:
            raise ConfigError(f"the program wrote {line!a}, which is no measurement")
        yield Sample(words[0], amounts[0] / amounts[1] * 1e9)


def _failure(ended: Finished) -> str:
    if ended.timed_out:
        return f"it took longer than {PATIENCE_S:.0f} s"
    said = ended.stderr.strip().partition("\n")[0]
    if ended.return_code is None:
        return ended.launch_error or "it could not be started"
    ending = f"signal {-ended.return_code}" if ended.return_code < 0 else f"status {ended.return_code}"
    return f"it ended with {ending}" + (f": {said}" if said else "")
