"""Decide which rows, when, for whom and in which KV memory; pure, shared by the engine and the simulator."""
