"""The same scheduler in virtual time."""
