"""The nouns: ids, requests, plans, outcomes, events, errors, configuration. Standard library only."""
