"""Sides in Triton: compiled to a cubin for a GPU (`compiler`), interpreted on a CPU (`interpreter`).

Their text is hostile Python that both execute, so only sandboxed workers import these two. The only importer
of `triton`. Not covered: what a module may contain (`kcurate.triton_source`).
"""
