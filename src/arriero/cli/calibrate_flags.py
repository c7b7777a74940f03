"""The settings that a calibration shares with a server, so that a profile fits it."""

from typing import Final

CALIBRATED: Final = (
    "model", "backend", "ctx_size", "sequences", "kv", "kv_type", "flash_attn", "n_gpu_layers", "batch", "micro_batch",
    "itl_target",
)  # fmt: skip
