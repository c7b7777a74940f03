"""What `lab profile` and `lab granularity` share: flags, settings and the model."""

from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from arriero.cli.lab.flag_values import whole_or
from arriero.cli.machine import available_cores
from arriero.cli.quiet import busy_or_refused
from arriero.cli.sources import LineParser, make_parser
from arriero.core.choices import FlashAttention, KvType

if TYPE_CHECKING:
    from arriero.backend.llama_model import LlamaModel
    from arriero.lab.operators.recorder import Recorder
    from arriero.record.bench_parts import RunFacts
    from arriero.record.cpu_lab.conditions import ConditionSample
    from arriero.record.cpu_lab.operators import ProfileSettings

T = TypeVar("T")
SEED: Final = 1
_COUNTS: Final = (
    ("prompt", 1, 512, 64, "rows of the prefill call"),
    ("generate", 1, 32, 8, "decode calls of a repetition"),
    ("depth", 0, 0, 0, "positions in KV before the prompt"),
    ("repetitions", 1, 7, 2, "times that everything is computed in every way, after a warm-up"),
)
"""Flag, least value, default, default of `--quick`, help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is measured, and with what.

    Attributes:
        model: loaded.
        recorder: fresh.
        reasons: what was done in a second-best way -> why.
    """

    model: "LlamaModel"
    recorder: "Recorder"
    reasons: dict[str, str]


class Beginning:
    """The moment at which a run began, the words that began it, and the machine just before."""

    def __init__(self, flags: Namespace, command: Sequence[str]) -> None:
        """Look at the machine.

        Raises:
            ConfigError: it is busy, and that is not allowed.
        """
        from arriero.lab.machine.load_samples import sample_conditions

        self.busy = busy_or_refused("or use --busy-ok for a doubtful result", busy_ok=flags.busy_ok)
        self._command = command
        self._started_at, self._began = datetime.now(UTC), monotonic()
        self.before: ConditionSample = sample_conditions()

    def facts(self) -> "RunFacts":
        """Up to now."""
        from arriero.record.bench_result_run import run_facts

        return run_facts(self._command, started_at=self._started_at, seconds=monotonic() - self._began)


def operators_parser(verb: str, says: str, *, folder: str, file: str) -> LineParser:
    """The flags that both verbs take."""
    parser = make_parser(f"lab {verb}", says)
    parser.add_argument(
        "--model", metavar="REF", default="smollm2-135m", help="what to compute (default: smollm2-135m)"
    )
    for name, _, default, _, help_text in _COUNTS:
        parser.add_argument(f"--{name}", metavar="N", help=f"{help_text} (default: {default})")
    parser.add_argument("--threads", metavar="N", help="that compute (default: all cores)")
    parser.add_argument("--flash-attn", choices=[each.value for each in FlashAttention], default="auto",
                        help="fused attention (default: auto)")  # fmt: skip
    parser.add_argument("--kv-type", choices=[each.value for each in KvType], default="f16",
                        help="of keys and values (default: f16)")  # fmt: skip
    parser.add_argument(
        "--python-callbacks", action="store_true", help="leave the C compiler alone; slower and labelled"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", default=folder, help=f"for {file} and the report (default: {folder})"
    )
    parser.add_argument("--from", dest="source", metavar="FILE", help=f"measure nothing: report on an earlier {file}")
    parser.add_argument("--quick", action="store_true", help="short and few: shows that all works")
    parser.add_argument("--force", action="store_true", help="replace results that exist")
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the result says so")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a summary")
    return parser


def settings_of(flags: Namespace) -> "ProfileSettings":
    """What was asked for.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    from arriero.lab.operators.bench import check_settings
    from arriero.record.cpu_lab.operators import ProfileSettings

    counts = {
        name: whole_or(f"--{name}", getattr(flags, name), least, quick if flags.quick else default)
        for name, least, default, quick, _ in _COUNTS
    }
    settings = ProfileSettings(
        **counts,
        threads=whole_or("--threads", flags.threads, 1, available_cores()),
        flash_attention=flags.flash_attn,
        kv_type=flags.kv_type,
        seed=SEED,
    )
    check_settings(settings)
    return settings


@contextmanager
def opened(path: Path, *, python_callbacks: bool) -> Generator[Opened]:
    """llama.cpp started, the model loaded, callbacks made."""
    from arriero.backend.library import process_start, process_stop
    from arriero.backend.llama_model import LlamaModel
    from arriero.lab.operators.compiled_recorder import choose_recorders
    from arriero.lab.scratch import scratch_folder

    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder("recorder"))
        process_start()
        stack.callback(process_stop)
        chosen = choose_recorders(folder, {} if python_callbacks else None)
        model = LlamaModel(path)
        stack.callback(model.close)
        why = "--python-callbacks" if python_callbacks else chosen.reason
        reasons = {} if why is None else {"callbacks": f"in Python ({why}): small nodes look longer than they are"}
        yield Opened(model=model, recorder=chosen.make(), reasons=reasons)


def alone(call: Callable[[], T]) -> T:
    """Run it on a thread that ends with it: no pool of compute threads is left to disturb what is measured next."""
    from arriero.backend.passing_thread import in_passing_thread

    return in_passing_thread(call)
