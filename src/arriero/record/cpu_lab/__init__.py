"""Files of the CPU lab: what was run, on what, and what came of it."""
