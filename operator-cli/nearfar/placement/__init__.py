"""Where the request path may stand, and what each place costs: distances and cold starts."""
