"""Counters and samples from outside: perf, callgrind, disassembly."""
