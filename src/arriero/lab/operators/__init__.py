"""Time by operator inside the decode call."""
