"""One adapter per host and port: it translates types, performs one effect, maps errors."""
