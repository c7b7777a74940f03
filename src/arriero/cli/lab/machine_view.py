"""A machine in a terminal: warnings come before the figures that they are about."""

import textwrap
from collections.abc import Iterator
from typing import Final

from arriero.record.cpu_lab.environment import LibraryFacts
from arriero.record.cpu_lab.machine_details import CacheFacts
from arriero.record.cpu_lab.machine_result import Ceiling, MachineResult
from arriero.record.machine import fact_lines

_WIDTH: Final = 118
_NAME: Final = 14
_GIGA: Final = 1e9


def machine_lines(result: MachineResult) -> Iterator[str]:
    """Facts, warnings, ceilings."""
    environment, details = result.environment, result.details
    for name, words in fact_lines(environment.machine).items():
        yield from _row(name, words)
    yield from _row("caches", "; ".join(map(cache_words, details.caches)) or "unknown")
    yield from _row("NUMA nodes", str(len(details.nodes) or "unknown"))
    yield from _row("ISA", " ".join(environment.isa) or "unknown")
    yield from _row("compilers", "; ".join(environment.compilers.values()) or "none")
    yield from _row("llama.cpp", library_words(environment.library) or environment.reasons["library"])
    yield from _row("fingerprint", environment.fingerprint)
    yield ""
    if not result.warnings:
        yield "no warnings"
    for warning in result.warnings:
        yield from _row("warning", f"{warning.says}; {warning.remedy}")
    yield ""
    yield from _ceilings(result)


def library_words(library: LibraryFacts | None) -> str:
    """A build in one line; empty without one."""
    if library is None:
        return ""
    commit = f", commit {library.commit}" if library.commit else ""
    return (
        f"binding {library.binding}, ggml {library.ggml or 'unknown'}{commit}, {' '.join(library.features)}, "
        f"by {' and '.join(library.compilers) or 'an unknown compiler'}"
    )


def cache_words(cache: CacheFacts) -> str:
    """One kind of cache."""
    size = f"{cache.bytes // 2**20} MiB" if cache.bytes % 2**20 == 0 else f"{cache.bytes // 1024} KiB"
    shared = f" shared by {cache.cpus}" if cache.cpus > 1 else ""
    return f"{cache.instances} x L{cache.level} {cache.kind.lower()} {size}{shared}"


def _ceilings(result: MachineResult) -> Iterator[str]:
    if not result.ceilings:
        yield "no ceilings were measured" + "".join(f"; {name}: {why}" for name, why in result.reasons.items())
        return
    assert result.array_bytes is not None, "a plan stands behind every ceiling"
    quick = ", quick: arrays may lie in the caches" if result.quick else ""
    yield f"{result.evidence}: {result.method}; arrays of {result.array_bytes / 2**20:.0f} MiB{quick}"
    if result.busy is not None:
        yield f"doubtful: {result.busy}"
    yield f"{'ceiling':<14} {'way':<14} {'threads':>7} {'median':>12} {'best':>12} {'spread':>8} {'n':>4}"
    for ceiling in result.ceilings:
        yield _ceiling(ceiling)
    for name, why in result.reasons.items():
        yield f"{name}: {why}"


def _ceiling(ceiling: Ceiling) -> str:
    unit = ceiling.kind.giga
    threads = "-" if ceiling.threads is None else str(ceiling.threads)
    return (
        f"{ceiling.kind:<14} {ceiling.variant:<14} {threads:>7} {ceiling.median / _GIGA:>6.1f} {unit:<5} "
        f"{ceiling.best / _GIGA:>6.1f} {unit:<5} {ceiling.spread:>7.1%} {len(ceiling.rates):>4}"
    )


def _row(name: str, words: str) -> list[str]:
    """The words beside a name, folded."""
    indent = " " * _NAME
    return textwrap.wrap(words, _WIDTH, initial_indent=f"{name:<{_NAME}}", subsequent_indent=indent) or [name]
