"""How often the rules of `arriero lab ab` tell two equal sides apart, and how often they find an effect. SIMULATED.

    python benchmarks/ab_rates.py [--published 10000] [--default 300] [--seed 20260801]

The published rules judge summaries of simulated runs; arriero's rules judge simulated pairs by the code that judges
measurements, A/A run included, so they take about 0.1 s a comparison. The figures in docs/lab/ab.md are from here.
"""

import argparse
from collections.abc import Iterator, Sequence

from arriero.metrics.ab_rates import NAMES, Rates, Setting, default_rates, published_rates
from arriero.metrics.ab_verdict import AbRules

EFFECTS = (0.0, 0.02, 0.05)
CVS = (0.005, 0.03, 0.09)


def published_rows(count: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Published rules, A/A: noise against correlation of the two rates."""
    for cv in CVS:
        for correlation in (0.0, 0.5, 0.9):
            rates = published_rates(Setting(cv=cv, correlation=correlation), num_comparisons=count, seed=seed)
            yield (f"{cv:.1%}", f"{correlation:g}", *shares(rates))


def default_rows(count: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Arriero's rules: effects, metrics and looks."""
    for cv in CVS:
        for effect in EFFECTS:
            for names, looks in ((NAMES[:1], 1), (NAMES[:2], 1), (NAMES, 1), (NAMES[:2], 3)):
                rates = default_rates(
                    Setting(cv=cv, effect=effect),
                    num_comparisons=count,
                    seed=seed,
                    rules=AbRules(num_looks=looks),
                    names=names,
                )
                yield (f"{cv:.1%}", f"{effect:.0%}", str(len(names)), str(looks), *shares(rates))


def shares(rates: Rates) -> tuple[str, ...]:
    """Positive, reject, inconclusive, and of how many."""
    return f"{rates.positive:.1%}", f"{rates.reject:.1%}", f"{rates.inconclusive:.1%}", f"{rates.num_comparisons:,}"


def table(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> None:
    """Print Markdown, a row as soon as it is known."""
    print(f"| {' | '.join(heads)} |\n| {' | '.join('---:' for _ in heads)} |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", metavar="N", type=int, default=10_000, help="comparisons in each row")
    parser.add_argument("--default", metavar="N", type=int, default=300, help="same, of arriero's rules")
    parser.add_argument("--seed", metavar="N", type=int, default=20260801)
    flags = parser.parse_args()
    answers = ("POSITIVE", "REJECT", "INCONCLUSIVE", "comparisons")
    print(f"SIMULATED, 20 pairs, seed {flags.seed}\n\nPublished rules, two equal sides\n")
    table(("CV", "correlation", *answers), published_rows(flags.published, flags.seed))
    print("arriero's rules after 20 A/A pairs\n")
    table(("CV", "effect", "metrics", "looks", *answers), default_rows(flags.default, flags.seed))


if __name__ == "__main__":
    main()
