"""Calibration: a designed set of steps measured on the real backend, and the cost model fitted to them."""
