"""Commands: options become configuration."""
