"""`arriero bench run`: reads the flags, then hands over."""

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Measure, write the result, print it; the exit status says what it is worth.

    Raises:
        ConfigError: something given cannot work. DataError: a file cannot be used.
    """
    from arriero.cli.bench.flags import run_parser

    flags = run_parser().parse_args(arguments)
    from arriero.cli.bench.run_measure import measure_and_tell
    from arriero.cli.bench.run_plan import plan_of

    return measure_and_tell(plan_of(flags), flags, ["arriero", "bench", "run", *arguments])
