"""Pictures of recorded runs, and the page that holds them."""
