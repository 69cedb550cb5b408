"""Resources of this project's own, as a Pulumi plugin beside those of the providers.

Pulumi starts `infra/plugin/pulumi-resource-nearfar` and talks gRPC with it. `kinds.py` says what a
kind of resource is, `servicer.py` translates, `table.py` names the kinds; each other module is one.
"""
