"""PoolPlan: what a run of the context pool is asked to do; the published options, and a cancel plan."""

from dataclasses import dataclass

from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.core.request import GREEDY, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One run.

    Attributes:
        contexts: contexts of the pool; of an engine that is measured beside it, the slots.
        concurrent: clients; each asks for its next request when its last one has ended.
        requests: in all.
        budgets: tokens of each answer, dealt round-robin over request numbers; 0 bypasses the pool.
        prompt: of every request.
        temperature: 0 is greedy.
        seed_base: a sampled request's seed is this plus its number.
        cancels: numbers of requests that are cancelled.
        cancel_after: so many tokens; 0 cancels them as soon as they have asked, waiting or not.
        heeds_end: whether an end token ends an answer; else every answer has its budget.
    """

    contexts: int
    concurrent: int
    requests: int
    budgets: tuple[int, ...]
    prompt: tuple[TokenId, ...]
    temperature: float = 0.0
    seed_base: int = 0
    cancels: tuple[int, ...] = ()
    cancel_after: int = 0
    heeds_end: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot run.

        Raises:
            ConfigError: names the option and the remedy.
        """
        rules = (
            (self.contexts >= 1, f"contexts must be at least 1, not {self.contexts}"),
            (self.concurrent >= 1, f"concurrent must be at least 1, not {self.concurrent}"),
            (self.requests >= 1, f"requests must be at least 1, not {self.requests}"),
            (bool(self.budgets), "the budget plan is empty; give at least one budget"),
            (all(budget >= 0 for budget in self.budgets), "a budget must be at least 0"),
            (bool(self.prompt), "the prompt has no tokens; give at least one"),
            (self.cancel_after >= 0, f"cancel_after must be at least 0, not {self.cancel_after}"),
        )
        for holds, rule in rules:
            if not holds:
                raise ConfigError(rule)

    @property
    def positions(self) -> int:
        """What one sequence must be able to hold."""
        return len(self.prompt) + max(self.budgets)

    def budget_of(self, number: int) -> int:
        """Tokens of one request."""
        return self.budgets[number % len(self.budgets)]

    def sampling_of(self, number: int) -> SamplingParams:
        """How one request chooses its tokens."""
        if self.temperature == 0:
            return GREEDY
        return SamplingParams(temperature=self.temperature, seed=self.seed_base + number)

    def cancels_at(self, number: int) -> int | None:
        """After how many tokens a request is cancelled, or None."""
        return self.cancel_after if number in self.cancels else None
