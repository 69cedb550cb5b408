"""One ComponentResource a module: `Name(name, NameArgs(...), opts)`, outputs as attributes."""
