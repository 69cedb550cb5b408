"""A real Chromium for the tests, and what asks it."""
