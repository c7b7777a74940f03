"""The public test kit: fakes, strategies, suites, gates."""
