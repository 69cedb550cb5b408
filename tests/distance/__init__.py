"""`just distance`: three placements, measured with delay on the ways between their parts."""
