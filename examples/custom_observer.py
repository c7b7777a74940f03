"""An observer sees every finished step: here it counts how full the batches were.

It is called where the engine runs, between two steps, so it only counts; printing is for later.
"""

from collections import Counter

from arriero import Dedicated, Engine, Result, StepRecord, SyntheticBackend, SyntheticOptions
from arriero.core.ids import Time
from arriero.engine.observer import EngineSummary


class BatchSizes:
    """How many sequences decoded together, and how often."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.decoding: Counter[int] = Counter()
        self.ended: Counter[str] = Counter()

    def on_start(self, at: Time) -> None:
        """Nothing to prepare."""

    def on_step(self, record: StepRecord) -> None:
        """Count one step."""
        if record.plan.rows:
            self.decoding[record.plan.shape.decode_rows] += 1

    def on_end(self, result: Result) -> None:
        """Count one request by the way it ended."""
        self.ended[result.reason] += 1

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing to close."""


def main() -> None:
    """Run requests of different length, then show the counts."""
    sizes = BatchSizes()
    engine = Engine(SyntheticBackend(SyntheticOptions(num_sequences=4)), observers=[sizes])
    handles = [engine.submit([number], max_tokens=4 * number) for number in range(1, 7)]
    engine.start(Dedicated())
    for handle in handles:
        handle.wait(timeout_s=10)
    engine.shutdown()
    engine.join(timeout_s=10)

    for reason, num_requests in sorted(sizes.ended.items()):
        print(f"{num_requests} requests ended by {reason}")
    for num_rows, num_steps in sorted(sizes.decoding.items()):
        print(f"{num_rows} decoding: {num_steps:3} steps {'#' * num_steps}")


if __name__ == "__main__":
    main()
