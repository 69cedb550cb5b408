"""The GPU half: one ServingSpec, and what follows from it (command line, budget, a server)."""
