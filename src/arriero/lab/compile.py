"""C compilers of this machine, and small programs and libraries built with stated flags.

What a compiler complains about becomes one line. Nothing is built by a shell, and a library appears whole or not at
all: it is written aside and takes its name when the compiler has ended well.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.tool_run import run_tool

NAMES: Final = MappingProxyType({"gcc": ("gcc", "cc"), "clang": ("clang",)})
"""Kind of compiler -> commands that may be one, the first found wins."""

# The kind is read from what the macros say, since `cc` may be either and macOS calls clang gcc.
_KIND: Final = (("clang", "__clang__"), ("gcc", "__GNUC__"))
_VERSION: Final = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")
_COMPLAINT: Final = re.compile(r"(?:fatal )?error:|undefined reference|cannot find|unrecognized")
_PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """One C compiler.

    Attributes:
        name: `gcc` or `clang`.
        path: of the program.
        version: the first line of what it says of itself.
    """

    name: str
    path: Path
    version: str

    @property
    def number(self) -> str:
        """The version alone, such as `12.2.0`; the whole line where there is none."""
        found = _VERSION.findall(self.version)
        return found[-1] if found else self.version

    def takes(self, *flags: str) -> bool:
        """Whether it knows some flags for the machine that it builds for."""
        command = [str(self.path), *flags, "-fsyntax-only", "-x", "c", os.devnull]
        return run_tool(command, patience_s=_PATIENCE_S).returncode == 0

    def build(
        self,
        sources: Sequence[Path],
        flags: Sequence[str],
        out: Path,
        *,
        shared: bool = False,
        libs: Sequence[str] = (),
    ) -> Path:
        """Compile and link C sources into a program, or into a library with `shared`; returns `out`.

        Args:
            sources: C files.
            flags: stated in full: nothing but `-shared -fPIC` is added.
            out: replaced if it exists; its folder is made.
            shared: a library that can be opened.
            libs: given after the sources, such as `-lm`.

        Raises:
            ConfigError: the compiler refuses; carries its first complaint.
        """
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = out.with_name(f".{out.name}.{os.getpid()}")
        kind = ("-shared", "-fPIC") if shared else ()
        command = [str(self.path), *flags, *kind, *map(str, sources), "-o", str(aside), *libs]
        try:
            done = run_tool(command, patience_s=_PATIENCE_S)
            if done.returncode != 0:
                names = ", ".join(source.name for source in sources)
                raise ConfigError(f"{self.name} {self.number}: cannot build {names}: {first_complaint(done.stderr)}")
            aside.replace(out)
        finally:
            aside.unlink(missing_ok=True)
        return out


def find_compilers(names: Mapping[str, Sequence[str]] = NAMES) -> Mapping[str, Compiler]:
    """The C compilers on the path by kind, gcc first; those that are absent are left out."""
    found: dict[str, Compiler] = {}
    for name, commands in names.items():
        for path in filter(None, map(shutil.which, commands)):
            compiler = _identified(Path(path))
            if compiler is not None and compiler.name == name:
                found[name] = compiler
                break
    return MappingProxyType(found)


def require_compiler(name: str | None = None) -> Compiler:
    """One compiler: the named one, or the first that is there.

    Raises:
        ConfigError: it is not there.
    """
    found = find_compilers()
    wanted = next(iter(found), None) if name is None else name
    if wanted is None or wanted not in found:
        what = "C compiler" if name is None else name
        raise ConfigError(f"no {what} on this machine; install one (Debian: apt-get install {name or 'gcc'})")
    return found[wanted]


def first_complaint(text: str) -> str:
    """The first line of a compiler's output that tells an error; paths are cut to their last part."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if _COMPLAINT.search(line)), lines[0] if lines else "it said nothing")
    return re.sub(r"(?:/[^\s/:]+)+/", "", line)


def _identified(path: Path) -> Compiler | None:
    """The compiler behind a command, or None if it does not work."""
    macros = run_tool([str(path), "-dM", "-E", "-x", "c", os.devnull], patience_s=_PATIENCE_S)
    if macros.returncode != 0:
        return None
    defined = {words[1] for line in macros.stdout.splitlines() if len(words := line.split()) > 1}
    kind = next((name for name, macro in _KIND if macro in defined), None)
    said = run_tool([str(path), "--version"], patience_s=_PATIENCE_S).stdout.partition("\n")[0].strip()
    return None if kind is None else Compiler(name=kind, path=path, version=said or path.name)
