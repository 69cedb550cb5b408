"""Mixed requests while what they depend on fails at random: `just soak`."""
