"""Figures of a recorded run: percentiles that the samples carry, goodput, rates, tables."""
