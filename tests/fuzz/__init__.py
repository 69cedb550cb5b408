"""Malformed requests against the real component: `just fuzz`."""
