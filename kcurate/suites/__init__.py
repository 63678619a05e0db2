"""Suites as data: which manifest a tree belongs to, and what a path in it means.

| module | what |
|---|---|
| `layout` | maps a path in a tree to its benchmark and variant, using the patterns of a layout |
| `manifest` | suite manifests as records |
| `problems` | the known problems of a suite's benchmarks: `sources/problems/<suite>/*.json` |
| `tree` | the suite a path belongs to |

A suite is a TOML file in `sources/` (layout rules and facts); no code here is specific to one suite.
Not covered: reading or parsing source files (`kcurate.extract`, `kcurate.cuda_source`).
"""

from kcurate.suites.layout import Layout, PairRule, Place, locate
from kcurate.suites.manifest import Benchmark, Manifest, load_manifest, load_manifests
from kcurate.suites.tree import Tree, find_tree, forced_tree, generic_tree

__all__ = [
    "Benchmark", "Layout", "Manifest", "PairRule", "Place", "Tree", "find_tree", "forced_tree",
    "generic_tree", "load_manifest", "load_manifests", "locate",
]  # fmt: skip
