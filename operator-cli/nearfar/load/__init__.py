"""The load generator: when requests are due, what they are, and the client that measures them."""
