"""Matrices of measurements, run durably."""
