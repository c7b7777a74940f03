"""From a configuration of arriero's own mode to a scheduler.

what the published lab does                     what is composed here
a long prompt ends the run                      prompts are cut, or that one is rejected
what can never fit waits until the run stalls   rejected on arrival
a decode without room waits                     the most recently admitted one yields and is computed anew
chain heads are evicted first                   leaves first, and nothing unreachable is kept
one cost model for each mode                    one for all
"""

from typing import assert_never

from arriero.core.errors import ContextTooLong, InvalidRequest
from arriero.core.request import Request
from arriero.costmodel.models import RoundedMicroseconds
from arriero.kv.block_figures import CacheRules
from arriero.kv.blocks import BlockManager
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.places import PlaceManager
from arriero.prefix.content import ContentIndex
from arriero.record.simulation_config import Blocks, Cells, SimulationConfig, Slots
from arriero.scheduler.admission import AllSlotsFree, Continuous, OneAtATime, StartRule, check_fits
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import ByArrival, DecodeFirst, LeadersFirst, Planner
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.scheduler import Scheduler, SchedulerLimits, SchedulerRules
from arriero.scheduler.whole_prompts import ArrivalOrder, DecodesThenPrompts


def new_kv(config: SimulationConfig) -> CellManager | BlockManager | PlaceManager:
    """The memory of a configuration."""
    num_sequences = config.limits.sequences
    match config.kv:
        case Cells(num_cells=num_cells, sequence_limit=limit):
            layout = CellLayout(
                num_sequences=num_sequences,
                num_cells=num_cells,
                sequence_limit=num_cells if limit is None else limit,
                unified=True,
            )
            return CellManager(layout)
        case Blocks() as blocks:
            return BlockManager(
                blocks.total_blocks,
                blocks.block_size,
                index=ContentIndex(blocks.block_size) if blocks.prefix_cache else None,
                rules=CacheRules(shares_at_once=blocks.share_within_step),
                num_sequences=num_sequences,
            )
        case Slots():
            return PlaceManager(num_sequences)
        case _:
            assert_never(config.kv)


def new_scheduler(config: SimulationConfig, kv: CellManager | BlockManager | PlaceManager) -> Scheduler:
    """A fresh scheduler.

    Raises:
        ConfigError: the parts do not go together.
    """
    limits = config.limits
    return Scheduler(
        kv=kv,
        planner=_planner(config),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(
            num_rows=limits.rows,
            budget=PrefillBudget(limits.prefill_rows_per_seq, limits.prefill_rows_per_step),
            headroom_per_sequence=config.kv.headroom_per_sequence if isinstance(config.kv, Cells) else 0,
        ),
        rules=SchedulerRules(fits=_FitCheck(config), start=_start_rule(config), names_deferred=config.trace == "full"),
    )


def new_cost(config: SimulationConfig) -> RoundedMicroseconds:
    """The cost model."""
    cost = config.cost
    return RoundedMicroseconds(
        base=cost.base_us,
        prefill_row=cost.prefill_row_us,
        decode_row=cost.decode_row_us,
        sequence=cost.sequence_us,
        context_token=cost.context_token_us,
    )


class _FitCheck:
    """The engine's check, and those of blocks and of prompts that are not cut."""

    def __init__(self, config: SimulationConfig) -> None:
        self._blocks = config.kv if isinstance(config.kv, Blocks) else None
        self._longest = None if config.limits.chunked_prefill else config.limits.rows

    def __call__(self, request: Request, sequence_limit: int) -> None:
        """Refuse what can never run."""
        check_fits(request, sequence_limit)
        num_prompt = len(request.prompt)
        if self._blocks is not None:
            size, total = self._blocks.block_size, self._blocks.total_blocks
            needed = -(-(num_prompt + request.max_tokens) // size)
            if needed > total:
                message = f"{num_prompt} + {request.max_tokens} tokens need {needed} blocks; there are {total}"
                raise ContextTooLong(message, needed=needed * size, limit=total * size)
        if self._longest is not None and num_prompt > self._longest:
            message = f"the prompt has {num_prompt} tokens, a step {self._longest} rows, and prompts are not cut"
            raise InvalidRequest(message, field="prompt")


def _planner(config: SimulationConfig) -> Planner:
    is_decode_first = config.planner == "decode-first"
    shares = isinstance(config.kv, Blocks) and config.kv.share_within_step
    if config.limits.chunked_prefill and is_decode_first:
        return LeadersFirst() if shares else DecodeFirst()
    if config.limits.chunked_prefill:
        return ByArrival()
    return DecodesThenPrompts() if is_decode_first else ArrivalOrder()


def _start_rule(config: SimulationConfig) -> StartRule:
    match config.start_rule:
        case "continuous":
            return Continuous()
        case "all-slots-free":
            return AllSlotsFree()
        case "one-at-a-time":
            return OneAtATime()
        case _:
            assert_never(config.start_rule)
