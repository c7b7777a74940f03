"""Validation: the same requests on the real engine and in the simulator, and how far the two are from each other."""
