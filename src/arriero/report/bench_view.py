"""BenchView: a result of the load generator with a name, and each of its points, ready to be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSummary
from arriero.metrics.client_summary import remake
from arriero.metrics.definitions import ARRIERO, Definitions
from arriero.record.bench_parts import Point
from arriero.record.bench_result import BenchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PointView:
    """One run at one setting.

    Attributes:
        key: unique on the page.
        result: its name.
        label: the result's name and the setting.
        setting: in words; empty for a single run.
        point: as it was recorded.
        summary: under the definitions that were asked for.
    """

    key: str
    result: str
    label: str
    setting: str
    point: Point
    summary: ClientSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchView:
    """One result file.

    Attributes:
        name: unique on the page.
        file: its name.
        sha256: of its bytes.
        points: at least one.
    """

    name: str
    file: str
    sha256: str
    result: BenchResult
    points: tuple[PointView, ...]


def bench_views(
    results: Sequence[tuple[Path, str, BenchResult]], definitions: Definitions = ARRIERO
) -> list[BenchView]:
    """Results in their order, each with a name of its own.

    Args:
        results: path, hash of the file, and what was read from it.
        definitions: whose words the figures follow; others than arriero's need the raw lives.

    Raises:
        ConfigError: other definitions are asked for, and a result has no raw lives.
    """
    stems = [path.stem for path, _, _ in results]
    found: list[BenchView] = []
    for number, (path, sha256, result) in enumerate(results, start=1):
        name = path.stem if stems.count(path.stem) == 1 else f"{path.stem} ({number})"
        points = tuple(
            _point(point, f"result-{number}-{index}", name, path, definitions)
            for index, point in enumerate(result.points, start=1)
        )
        found.append(BenchView(name=name, file=path.name, sha256=sha256, result=result, points=points))
    return found


def setting_words(setting: Mapping[str, Any]) -> str:
    """A setting in one line, such as `4 requests/s, short`."""
    return ", ".join(_words(name, value) for name, value in setting.items())


def _words(name: str, value: object) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    match name:
        case "rate_per_s":
            return f"{shown} requests/s"
        case "clients" | "slots":
            return f"{shown} {name.removesuffix('s') if value == 1 else name}"
        case "workload":
            return shown
        case _:
            return f"{name} {shown}"


def _point(point: Point, key: str, name: str, path: Path, definitions: Definitions) -> PointView:
    words = setting_words(point.setting)
    summary = point.summary
    if definitions.name != summary.definitions:
        if not point.keeps_lives:
            raise ConfigError(
                f"--definitions {definitions.name}: {path} keeps no raw log to compute them from; "
                "run again without --no-raw"
            )
        summary = remake(summary, point.lives, definitions)
    return PointView(
        key=key, result=name, label=f"{name}, {words}" if words else name, setting=words, point=point, summary=summary
    )
