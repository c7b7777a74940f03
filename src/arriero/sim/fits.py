"""Fit checks of simulations: who is refused on arrival since it can never run."""

from dataclasses import dataclass

from arriero.core.errors import ContextTooLong, InvalidRequest
from arriero.core.request import Request
from arriero.scheduler.admission import check_fits


def anything_fits(request: Request, sequence_limit: int) -> None:
    """The published simulator refuses nobody: what can never fit waits until the run stalls."""
    del request, sequence_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCheck:
    """The engine's check, and those of blocks and of prompts that are not cut.

    Attributes:
        num_blocks, block_size: of the pool; None without one.
        longest_prompt: rows of a step, where prompts are not cut; None where they are.
    """

    num_blocks: int | None
    block_size: int | None
    longest_prompt: int | None

    def __call__(self, request: Request, sequence_limit: int) -> None:
        """Refuse what can never run.

        Raises:
            InvalidRequest, ContextTooLong: says why.
        """
        check_fits(request, sequence_limit)
        num_prompt = len(request.prompt)
        if self.num_blocks is not None and self.block_size is not None:
            size, total = self.block_size, self.num_blocks
            needed = -(-(num_prompt + request.max_tokens) // size)
            if needed > total:
                message = f"{num_prompt} + {request.max_tokens} tokens need {needed} blocks; there are {total}"
                raise ContextTooLong(message, needed=needed * size, limit=total * size)
        if self.longest_prompt is not None and num_prompt > self.longest_prompt:
            message = f"the prompt has {num_prompt} tokens, a step {self.longest_prompt} rows, and prompts are not cut"
            raise InvalidRequest(message, field="prompt")
