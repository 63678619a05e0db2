"""The task set under a name that verifiers finds, with this folder on PYTHONPATH (docs/serving.md)."""

from kcurate.integrations.verifiers import KernelTaskset

__all__ = ["KernelTaskset"]
