"""Fast sides of composed graphs, from schedule templates: what is fused, and how each kernel runs.

| module | owns |
|---|---|
| `fusing` | which nodes share a kernel |
| `choice` | which schedule a kernel gets |
| `writer` | expressions of nodes inside kernels |
| `tidy` | dead declarations, copies and repeated subexpressions removed from generated text |
| `kernels` | elements, rows, columns, scans |
| `products` | tiles of matrix products and convolutions |
| `sides` | the side in CUDA; reductions and scans of warps and blocks |
| `triton_writer`, `triton_side` | expressions and the side in Triton |
"""
