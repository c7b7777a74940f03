"""How long a step takes: formulas over its shape, standard library only."""
