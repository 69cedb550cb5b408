"""Before and after: differences with their doubt, the stage that explains them, and verdicts."""
