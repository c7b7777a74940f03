"""What the radix trees cost: microseconds a request, verb by verb, beside a steady number of retained runs.

    python benchmarks/prefix_tree.py [--retained 8,64,1000] [--requests 2000] [--rounds 5] [--json FILE]

MEASURED. Traffic of one kind at a time; for each request the prompt is matched, inserted, grows by its answer token by
token, and the oldest run is withdrawn. `unique`: 120 tokens that no other prompt has. `shared`: 1,000 tokens that all
have and 50 of its own. Prompts are tuples of integers of their own, as a tokenizer gives them, or arrays.
Means of a round, of which the best one counts, each verb by itself; each call is timed by itself too, so that the
clock's own 0.05 to 0.1 us are in all figures but those of growing.
"""

import argparse
import json
import sys
from array import array
from collections.abc import MutableSequence, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from time import perf_counter_ns
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from machine import machine_facts, refuse_busy_machine

from arriero.prefix.cache import PrefixTrees, RunKey

VOCABULARY = 49_152
ANSWER = 32


class Cost(NamedTuple):
    """Microseconds a call."""

    match: float  # of the whole prompt, before it is inserted
    insert: float  # of the whole prompt
    grow: float  # by one token
    withdraw: float  # of the oldest run, with its answer


class Traffic(NamedTuple):
    """Prompts that begin with `shared` tokens that all have and go on with `own` tokens."""

    name: str
    shared: int
    own: int


TRAFFIC = (Traffic("unique", 0, 120), Traffic("shared", 1_000, 50))


def prompts_of(traffic: Traffic, number: int, seed: int) -> list[tuple[int, ...]]:
    """Prompts with integer objects of their own."""
    random = Random(seed)  # the prompts of one seed are always the same
    shared = random.sample(range(VOCABULARY), traffic.shared)
    # The first own token tells prompts apart as long as the vocabulary does, so that nothing is shared by chance.
    first = random.sample(range(VOCABULARY), number)
    own = ([first[each], *random.choices(range(VOCABULARY), k=traffic.own - 1)] for each in range(number))
    return [tuple(int(str(token)) for token in (*shared, *stretch)) for stretch in own]


def one_round(prompts: Sequence[Sequence[int]], retained: int) -> Cost:
    """Every request in turn; the first ones fill the trees and do not count."""
    trees = PrefixTrees()
    spent = [0, 0, 0, 0]
    counted = len(prompts) - retained
    for number, prompt in enumerate(prompts):
        run = RunKey(number)
        text: MutableSequence[int] = prompt[:] if isinstance(prompt, array) else list(prompt)
        began = perf_counter_ns()
        trees.match("", prompt, len(prompt) - 1)
        matched = perf_counter_ns()
        trees.insert("", run, prompt)
        inserted = perf_counter_ns()
        for token in range(ANSWER):
            text.append(token)
            trees.insert("", run, text)
        grown = perf_counter_ns()
        if number < retained:
            continue
        trees.withdraw(RunKey(number - retained))
        ended = perf_counter_ns()
        for verb, (start, stop) in enumerate(pairwise((began, matched, inserted, grown, ended))):
            spent[verb] += stop - start
    trees.check()
    match, insert, grow, withdraw = (total / counted / 1_000 for total in spent)
    return Cost(match, insert, grow / ANSWER, withdraw)


def measure(traffic: Traffic, retained: int, requests: int, rounds: int, *, as_array: bool) -> Cost:
    """The best round of each verb."""
    texts = prompts_of(traffic, requests + retained, seed=1)
    prompts = [array("i", text) if as_array else text for text in texts]
    costs = [one_round(prompts, retained) for _ in range(rounds)]
    return Cost(*(min(column) for column in zip(*costs, strict=True)))


def numbers(text: str) -> list[int]:
    """`8,64` as a list."""
    return [int(word) for word in text.split(",")]


def main() -> int:
    """Print one line for each traffic, number of retained runs and kind of prompt."""
    parser = argparse.ArgumentParser(description="Microseconds of the radix trees, verb by verb.")
    parser.add_argument("--retained", type=numbers, default=[8, 64, 1_000], help="runs kept beside each request")
    parser.add_argument("--requests", type=int, default=2_000, help="requests of a round that count")
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    busy = refuse_busy_machine()
    if busy is not None:
        print(busy, file=sys.stderr)
        return 1
    facts = machine_facts()
    for name, value in facts.items():
        print(f"{name}: {value}")
    words = " ".join(f"{word:>8}" for word in ("retained", "prompt", *Cost._fields, "sum"))
    print(f"\nus a call {words}")
    rows: list[dict[str, object]] = []
    for traffic in TRAFFIC:
        for retained in options.retained:
            for as_array in (False, True):
                cost = measure(traffic, retained, options.requests, options.rounds, as_array=as_array)
                kind = "array" if as_array else "tuple"
                whole = cost.match + cost.insert + cost.withdraw
                shown = " ".join(f"{value:8.2f}" for value in (*cost, whole))
                print(f"{traffic.name:<9} {retained:>8} {kind:>8} {shown}", flush=True)
                rows.append({"traffic": traffic.name, "retained": retained, "prompt": kind, **cost._asdict()})
    print("sum: match + insert + withdraw, without growing")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": facts, "us_a_call": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
