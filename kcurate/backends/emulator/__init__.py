"""Device code run without a GPU: compiled as host C++, threads of a block as fibers.

`include/` is what device code sees (our own headers, and no other), `runtime/` what runs it. Not covered: who
may run what where (`kcurate.judge`).
"""
