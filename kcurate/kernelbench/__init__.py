"""KernelBench's PyTorch modules as tasks."""
