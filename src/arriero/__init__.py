"""Continuous batching you can watch, measure and replay, on llama.cpp."""

__version__ = "0.1.0"
