"""Build and install the engine's binding for the CPU of this machine.

A wheel does not know which instructions it was compiled for, and one built elsewhere may be slow
here or crash. So each wheel is kept under a key made of everything that decides its content: the
pinned source, the compiler, the options and the CPU's own flags. A wheel whose key fits is
installed in seconds; otherwise the source is compiled, with a line every few seconds that says how
far it is. The key of what is installed lies beside the environment, so a second run does nothing.

Environment:
    CMAKE_ARGS, CFLAGS, CXXFLAGS: further options of the build, after ours; part of the key.
    XDG_CACHE_HOME: where wheels are kept (in its folder `arriero/wheels`); `~/.cache` otherwise.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "binding.txt"
INSTALLED_KEY = Path(sys.prefix) / "binding-key"
CMAKE_ARGS = (
    "-DGGML_NATIVE=ON",  # this CPU's instructions
    "-DLLAVA_BUILD=OFF",  # no pictures
    "-DLLAMA_OPENSSL=OFF",  # the library fetches nothing
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
)
# The AMX path of this llama.cpp crashes in its first prefill (seen with GCC 12: `ldtilecfg` reads a
# configuration that was never stored; ggml-org/llama.cpp#20824, #26954). So it stays out.
WITHOUT_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
SECONDS_BETWEEN_LINES = 5.0
NINJA_PROGRESS = re.compile(r"^\s*\[(\d+)/(\d+)\]")


def main() -> int:
    """Bring the environment that runs this script the binding that fits; 0 if it has it."""
    compiler = find_compiler()
    if compiler is None:
        print(
            "make: no C++ compiler found. Install one (Debian: apt-get install g++) and try again.",
            file=sys.stderr,
        )
        return 1
    options = build_options(compiler)
    key = build_key(" ".join(options.values()), compiler)
    if INSTALLED_KEY.exists() and INSTALLED_KEY.read_text() == key:
        return 0
    shelf = wheel_shelf() / key
    wheel = next(iter(sorted(shelf.glob("*.whl"))), None) or build(options, shelf)
    if wheel is None:
        return 1
    install(wheel)
    INSTALLED_KEY.write_text(key)
    return 0


def find_compiler() -> str | None:
    """The path of the C++ compiler that CMake will choose, as far as we can tell."""
    wanted = os.environ.get("CXX")
    names = (wanted,) if wanted else ("c++", "g++", "clang++")
    return next((path for name in names if (path := shutil.which(name))), None)


def build_options(compiler: str) -> dict[str, str]:
    """The variables that steer the build: what the environment says, after what we say."""
    flags = WITHOUT_AMX if takes_flags(compiler, WITHOUT_AMX) else ()
    ours = {"CMAKE_ARGS": CMAKE_ARGS, "CFLAGS": flags, "CXXFLAGS": flags}
    return {name: " ".join((*words, os.environ.get(name, ""))).strip() for name, words in ours.items()}


def takes_flags(compiler: str, flags: tuple[str, ...]) -> bool:
    """Whether a compiler knows some flags: those of another CPU, or too new for it, it refuses."""
    command = [compiler, *flags, "-E", "-x", "c++", os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def build_key(options: str, compiler: str) -> str:
    """A name for all that decides the content of the wheel: 16 hexadecimal digits."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    parts = (
        PINS.read_text(),
        options,
        version.stdout.partition("\n")[0],
        platform.machine(),
        cpu_flags(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def cpu_flags() -> str:
    """The instruction sets that the CPU announces; its plain name where Linux does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return " ".join(sorted(flags.partition(":")[2].split()))


def wheel_shelf() -> Path:
    """The folder that holds one folder of wheels for each key."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "arriero" / "wheels"


def build(options: dict[str, str], shelf: Path) -> Path | None:
    """Compile the pinned source into a wheel on the shelf; None, and the log's end, if it fails."""
    print(
        "Building the llama.cpp binding for this CPU: once, about 5 minutes on 2 cores.",
        flush=True,
    )
    shelf.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **options,
        "PATH": os.pathsep.join((str(Path(sys.prefix) / "bin"), os.environ.get("PATH", ""))),
    }
    command = [
        sys.executable, "-m", "pip", "wheel", "-v", "--no-cache-dir", "--no-deps",
        "--no-build-isolation", "--no-binary", "llama-cpp-python", "--require-hashes",
        "-r", str(PINS),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(dir=shelf) as scratch, tempfile.TemporaryFile("w+") as log:
        status = watch([*command, "-w", scratch], environment, log)
        wheels = sorted(Path(scratch).glob("*.whl"))
        if status != 0 or not wheels:
            log.seek(0)
            print("".join(log.readlines()[-40:]), file=sys.stderr)
            print("make: the binding did not build; the end of its log is above.", file=sys.stderr)
            return None
        return wheels[0].replace(shelf / wheels[0].name)


def watch(command: list[str], environment: dict[str, str], log: IO[str]) -> int:
    """Run a build, its output into `log`, and say every few seconds how far it is."""
    started = time.monotonic()
    progress = Progress()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "the output was asked for"
        reader = threading.Thread(target=progress.follow, args=(process.stdout, log), daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(SECONDS_BETWEEN_LINES)
            print(f"  {time.monotonic() - started:4.0f} s: {progress.said}", flush=True)
    return process.returncode


class Progress:
    """The last thing a build said about how far it is; written by one thread, read by another."""

    def __init__(self) -> None:
        self.said = "fetching the source, preparing"

    def follow(self, output: IO[str], log: IO[str]) -> None:
        """Copy the output of a build into a log until it ends."""
        for line in output:
            log.write(line)
            if found := NINJA_PROGRESS.match(line):
                self.said = f"{found[1]} of {found[2]} files compiled"


def install(wheel: Path) -> None:
    """Put one wheel into the environment; what it requires is there already."""
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-index",
            "--force-reinstall", str(wheel),
        ],
        stdin=subprocess.DEVNULL,
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
