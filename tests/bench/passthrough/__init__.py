"""A bare component to measure against."""
