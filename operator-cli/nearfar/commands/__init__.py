"""The commands: each parses, calls and prints; what they do lies in the modules beside this one."""
