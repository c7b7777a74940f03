"""The runs that commands start, in one place."""

from arriero.sim.mixed_decode import run_mixed_decode
from arriero.sim.own_run import run_simulation
from arriero.sim.serving_lab import run_serving_lab

__all__ = ["run_mixed_decode", "run_serving_lab", "run_simulation"]
