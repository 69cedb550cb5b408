"""Puts a delay somewhere into the stack, and asks the comparison where it lies."""
