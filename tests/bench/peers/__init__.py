"""nearfar beside its peers, and its load generator beside others: `just bench-peers`."""
