"""Which computed prefixes are in memory: indexes over full blocks of tokens."""
