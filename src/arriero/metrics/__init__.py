"""Formulas over timestamps: latencies, quantiles, rates, goodput; no clock and no files."""
