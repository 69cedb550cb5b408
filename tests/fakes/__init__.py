"""Stand-ins for what cannot be had on a test machine: a GPU server and distance."""
