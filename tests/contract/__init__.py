"""What every adapter of a port must do, as plain functions that also run inside the component."""
