"""How long state machines run: few examples of many steps, since what goes wrong late needs the steps."""

from hypothesis import settings

NUM_STEPS = 200


def machine_settings(one_in: int) -> settings:
    """So many steps in each example, and one in so many of the profile's examples."""
    return settings(stateful_step_count=NUM_STEPS, max_examples=max(10, settings().max_examples // one_in))
