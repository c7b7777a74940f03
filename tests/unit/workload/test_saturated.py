"""The saturated chat workload against its description, written out once more."""

import math
import random

from arriero.workload.catalogue import named_config, recipe


def test_the_saturated_chat_is_drawn_as_described() -> None:
    n = 300
    g = random.Random(20260719 + n)
    t = 0
    expected = []
    for i in range(n):
        t += math.floor(-1000 * math.log1p(-g.random())) if i > 0 else 0
        s = g.randrange(4)
        priv = g.randint(12, 80)
        tokens = [1000 * s + k for k in range(96)]
        for _ in range(priv):
            tokens.append(g.randrange(10_000, 2_000_000_000))  # noqa: PERF401 - as in the description
        expected.append((f"chatsat-{i:06d}", t, tokens, g.randint(16, 64), f"sys-{s}", "chat"))
    found = [
        (
            each.request_id,
            each.arrival_time_us,
            list(each.prompt_tokens or ()),
            each.max_new_tokens,
            each.prefix_group,
            each.workload_class,
        )
        for each in recipe(named_config("saturated_chat", n)).make()
    ]
    assert found == expected
