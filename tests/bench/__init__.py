"""Measures the edge beside what it could be replaced with, all in one run."""
