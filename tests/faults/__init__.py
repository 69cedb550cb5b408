"""The kinds of faults that people met in products like this one: `just faults`."""
