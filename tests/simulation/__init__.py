"""Simulated runs: how often a comparison is right."""
