"""Whole-stack tests: the real component in a real wasmtime, a real Redis, a fake upstream."""
