"""Prints the journals of some random workloads, live and simulated; started as a program by the tests beside it."""

import random
import sys

from tests.equivalence.test_live_equals_simulated import WORLDS, pick_world
from tests.equivalence.worlds import live_journal, simulated_journal


def main() -> None:
    """One line for each record."""
    for seed, kinds in enumerate((*WORLDS, *WORLDS)):
        world = pick_world(random.Random(seed).randint, 40, 200_000, kinds)
        for line in (*live_journal(world), *simulated_journal(world)):
            sys.stdout.write(f"{line.decode()}\n")


if __name__ == "__main__":
    main()
