"""The README of an evidence package: what was decided, by which figures, and what they do not show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

_SIGNIFICANT = ".5g"


def page(plan: Mapping[str, Any], results: Mapping[str, Any], verdicts: Mapping[str, Any]) -> str:
    """Markdown of the three files."""
    parts = (
        _head(plan, results),
        _statements(verdicts["statements"]),
        *(_table(table) for table in results["tables"]),
        _list("What this does not show", results["limits"]),
        _facts(plan, results),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(plan: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    experiment = plan["experiment"]
    number = f"{experiment['number']}: " if experiment["number"] else ""
    yield f"# {number}{experiment['name']}"
    yield ""
    yield f"**{results['verdict']}**. {experiment['decides']}"
    yield ""
    yield "Stated before the run:"
    yield f"- metric: {experiment['metric']}"
    yield f"- comparison: {experiment['comparison']}"
    yield f"- difference that counts: {experiment['difference']}"


def _statements(statements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Acceptance"
    yield ""
    yield "| statement | measured | bound | verdict |"
    yield "| --- | --- | --- | --- |"
    for each in statements:
        reason = "" if each["reason"] is None else f" ({each['reason']})"
        cells = (each["text"], shown(each["measured"]), each["bound"], f"{each['verdict']}{reason}")
        yield f"| {' | '.join(map(_in_cell, cells))} |"


def _table(table: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {table['title']}"
    yield ""
    yield f"{table['label']}"
    yield ""
    yield f"| {' | '.join(map(_in_cell, table['heads']))} |"
    yield f"|{' --- |' * len(table['heads'])}"
    for row in table["rows"]:
        yield f"| {' | '.join(_in_cell(shown(value)) for value in row)} |"
    if table["note"]:
        yield ""
        yield table["note"]


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"- {line}" for line in lines) if lines else ["Nothing is known."]


def _facts(plan: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    origin = plan["origin"]
    yield "## Where it comes from"
    yield ""
    yield f"- command: `{' '.join(origin['command'])}`"
    dirty = ", with changes" if origin["dirty_worktree"] else ""
    yield f"- code: {origin['code']['package']} {origin['code']['version']}, revision {origin['git_revision']}{dirty}"
    machine = {name: value for name, value in origin["machine"].items() if name != "reasons"}
    for name, value in (*results["facts"].items(), *machine.items()):
        yield f"- {name.replace('_', ' ')}: {shown(value)}"
    load = results["load_during"]
    yield f"- load average at the end: {shown(load['load_average'])}"
    yield f"- cores kept busy by others meanwhile: {shown(load['other_cores'])}"
    yield f"- configuration: `config.json`, SHA-256 `{plan['config_sha256']}`"
    for name, entry in results["raw"].items():
        kept = f"`{entry['kept']}`" if entry["kept"] else "not kept"
        yield f"- raw records {name}: {kept}, {entry['bytes']} bytes, SHA-256 `{entry['sha256']}`"


def shown(value: Any) -> str:  # noqa: ANN401 - JSON values
    """A value for people: five significant digits of a fraction, a dash for what is not defined."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value, _SIGNIFICANT)
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, cast("Sequence[Any]", value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(each)}" for name, each in cast("dict[str, Any]", value).items())
    return str(value)


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
