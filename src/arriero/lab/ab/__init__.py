"""Paired comparison of two variants."""
