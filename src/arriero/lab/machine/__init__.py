"""The machine and the library: facts, warnings, ceilings."""
