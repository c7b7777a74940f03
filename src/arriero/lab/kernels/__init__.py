"""Extracted kernels: equal bits first, then time."""
