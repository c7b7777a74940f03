"""Which computed prefixes are in memory: radix trees over runs of tokens, and indexes over full blocks of them."""
