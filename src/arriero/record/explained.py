"""An explained request as JSON: what `GET /v1/requests/{id}/explain` and `arriero explain --json` say, in one form.

All times are whole microseconds. `parts_us` adds up to `total_us` exactly; parts of no time are left out.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from arriero.metrics.explain_parts import Explanation, Gap, Share

DELIVERY: Final = "delivery"
"""The name, among the parts, of the time from the end of a request to the last byte of its answer."""

NOBODY: Final[Mapping[int, str]] = MappingProxyType({})


class SharedRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one request is to blame for.

    Attributes:
        request: the engine's number; null stands for those that are not named.
        id: as its client knows it, if that is the client who asks.
    """

    request: int | None
    us: int
    id: str | None = None


class GapRow(msgspec.Struct, frozen=True, kw_only=True):
    """One of the longest gaps between two tokens; its parts add up to it.

    Attributes:
        token: the one at its end, counted from 0.
    """

    token: int
    us: int
    parts_us: dict[str, int]
    others_prefill: tuple[SharedRow, ...]


class ExplainedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        request: the engine's number.
        state: how far it has come or how it ended: a word of `metrics.explain_parts.State`.
        detail: who cancelled it, or the code or class of its error; null for a normal end.
        shares_by: how steps were divided among their rows: `cost_model` or `rows`.
        arrival_us: on the clock of the engine, or of the journal.
        ttft_us: first token - arrival; null without a token.
        e2e_us: last token - arrival, or end - arrival without a token; null as long as more is to come.
        total_us: from arrival to the last byte of the answer where that is known, else to the end, or until now.
        parts_us: what that time went to.
        until_first_token_us, between_tokens_us, closing_us: the same by stretch: up to the first token, from there to
            the last one, and up to the end.
        delivery_us: from the end to the last byte; null where nobody has noted it.
        others_prefill: whose prompt rows it waited for, the longest first.
        prefix: who computed the prefix that it waited for.
        gaps: the longest gaps with more in them than a decode step, in the order of their tokens.
    """

    request: int
    state: str
    detail: str | None
    shares_by: str
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    preemptions: int
    arrival_us: int
    ttft_us: int | None
    e2e_us: int | None
    total_us: int
    parts_us: dict[str, int]
    until_first_token_us: dict[str, int]
    between_tokens_us: dict[str, int]
    closing_us: dict[str, int]
    delivery_us: int | None
    others_prefill: tuple[SharedRow, ...]
    prefix: tuple[SharedRow, ...]
    gaps: tuple[GapRow, ...]


def explained_row(
    explanation: Explanation, *, delivery: int | None = None, names: Mapping[int, str] = NOBODY
) -> ExplainedRow:
    """An explanation in this form.

    Args:
        explanation: of a request.
        delivery: from its end to the last byte of its answer; None where that is not known.
        names: ids of requests as the one who asks knows them.
    """
    known = {} if delivery is None else {DELIVERY: delivery}
    return ExplainedRow(
        request=explanation.request_id,
        state=explanation.ending.state.value,
        detail=explanation.ending.detail,
        shares_by=explanation.basis.value,
        prompt_tokens=explanation.prompt_tokens,
        cached_tokens=explanation.cached_tokens,
        tokens=explanation.num_tokens,
        preemptions=explanation.num_preemptions,
        arrival_us=explanation.moments.arrival,
        ttft_us=explanation.ttft,
        e2e_us=explanation.e2e,
        total_us=explanation.total + (delivery or 0),
        parts_us=explanation.split.named | known,
        until_first_token_us=explanation.until_first.named,
        between_tokens_us=explanation.between.named,
        closing_us=explanation.closing.named,
        delivery_us=delivery,
        others_prefill=_shared(explanation.others, names),
        prefix=_shared(explanation.leaders, names),
        gaps=tuple(_gap(gap, names) for gap in explanation.gaps),
    )


def _gap(gap: Gap, names: Mapping[int, str]) -> GapRow:
    return GapRow(
        token=gap.index, us=gap.split.total, parts_us=gap.split.named, others_prefill=_shared(gap.others, names)
    )


def _shared(shares: Iterable[Share], names: Mapping[int, str]) -> tuple[SharedRow, ...]:
    return tuple(
        SharedRow(each.request_id, each.time, None if each.request_id is None else names.get(each.request_id))
        for each in shares
    )
