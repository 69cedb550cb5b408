"""Deploys both halves of nearfar: the GPU half on LKE and the edge before it, by Pulumi."""
