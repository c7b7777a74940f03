"""No file names a package index or one machine's folders, and every relative link leads somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

# Written in pieces, so that this file does not hold what it looks for.
INDEX = re.compile("|".join(["py" + r"pi\.org", "python" + "hosted", "index" + r"[-_]url",
                             "registry" + r"\.npmjs", "find" + "-links"]))  # fmt: skip
MACHINE_PATH = re.compile(r"(?<![\w.$~*])/(?:" + "root|home|work|Users" + r")/[\w.]")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@pytest.fixture(scope="module")
def files(root: Path) -> list[Path]:
    """Files that are tracked or would be, of text; all but ignored ones where there is no git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: nothing tells which files are tracked")
    found = [root / name for name in listed.split("\0") if name]
    return [path for path in found if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def hits(files: list[Path], pattern: re.Pattern[str], root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()[:120]}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_index(files: list[Path], root: Path) -> None:
    assert hits(files, INDEX, root) == []


def test_no_file_names_a_folder_of_one_machine(files: list[Path], root: Path) -> None:
    assert hits(files, MACHINE_PATH, root) == []


def test_there_is_no_lock_file_that_records_addresses(files: list[Path]) -> None:
    locks = {"uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json"}
    assert locks.isdisjoint(path.name for path in files)


def test_relative_links_lead_to_a_file_or_heading(files: list[Path], root: Path) -> None:
    broken = [
        f"{path.relative_to(root)}: {target}"
        for path in files
        if path.suffix == ".md"
        for target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8")))
        if is_broken(path, target)
    ]
    assert broken == []


def is_broken(page: Path, target: str) -> bool:
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return False
    name, _, heading = target.partition("#")
    place = page.parent / name if name else page
    if not place.exists():
        return True
    return bool(heading) and place.suffix == ".md" and heading not in headings(place)


def headings(page: Path) -> set[str]:
    """The anchors of a page: its headings in lower case, punctuation gone, blanks as hyphens."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+\s+(.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
