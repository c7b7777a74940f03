"""The load generator: send requests on a fixed schedule, stamp what comes back, keep the raw moments.

`ask` and `target` are the seam: who plans and paces a run gives asks to a target and gets lives back. What is computed
from lives is in `metrics`, what is written is in `record`.
"""
