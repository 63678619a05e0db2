"""Fast sides of composed graphs, from schedule templates: what is fused, and how each kernel runs.

| module | owns |
|---|---|
| `fusing` | which nodes share a kernel |
| `writer` | expressions of nodes inside kernels |
| `kernels` | elements, rows, columns, scans |
| `products` | tiles of matrix products and convolutions |
| `helpers` | reductions and scans of warps and blocks |
| `sides` | the schedule of each kernel, and the side in CUDA |
| `triton_side` | the same in Triton |
"""
