"""A third host of the edge's core: a plain Python server process, as a container would hold it.

It is here to be measured beside the component, and for nothing else: no deployment uses it.
"""
