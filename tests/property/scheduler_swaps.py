"""What the reference scheduler knows of a place outside: counted token by token, and added up whenever it is asked."""

from dataclasses import dataclass, field

from arriero.testing.strategies import SchedulerSetup

Short = tuple[object, ...]


@dataclass
class Outside:
    """Which requests have something there, by the number of their arrival."""

    setup: SchedulerSetup
    kept: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])  # key, tokens
    num_keys: int = 0

    def keep(self, number: int, sequence: int, computed: int, num_prompt: int) -> list[Short]:
        """What is said where a request that yields is swapped out; nothing where it is not."""
        if not computed or not self._pays(computed, num_prompt):
            return []
        if sum(tokens for _, tokens in self.kept.values()) + computed > self.setup.swap_tokens:
            return []
        self.num_keys += 1
        self.kept[number] = (self.num_keys, computed)
        return [("save", sequence, self.num_keys, computed)]

    def bring_back(self, number: int, sequence: int) -> tuple[int, list[Short]]:
        """How many tokens a request gets back when it starts on a sequence, and what is said of it."""
        if number not in self.kept:
            return 0, []
        key, computed = self.kept.pop(number)
        return computed, [("restore", sequence, key, computed), ("forget", key)]

    def drop(self, number: int) -> list[Short]:
        """What is said where a request ends that has something there."""
        return [("forget", self.kept.pop(number)[0])] if number in self.kept else []

    def _pays(self, computed: int, num_prompt: int) -> bool:
        rule = self.setup.swap
        if rule is None:
            return False
        again, swap = 0.0, float(rule.swap_time)
        for position in range(computed):
            again += rule.row_time if position < num_prompt else rule.answer_row_time
            swap += rule.token_time
        return swap < again
