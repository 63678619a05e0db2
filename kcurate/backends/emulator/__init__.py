"""Runs device code without a GPU: compiled as host C++, with the threads of a block as fibers.

`include/` holds the headers that device code sees (ours, and no others), `runtime/` the code that runs it.
Not covered: who may run what where (`kcurate.judge`).
"""
