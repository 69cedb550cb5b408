"""The command line that runs nearfar on one machine and talks to it anywhere."""

__version__ = "0.1.0"
