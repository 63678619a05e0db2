"""Rule on memory spaces: constant memory becomes plain global memory.

- constant-to-global: a `__device__` variable has the same type, size, initial value and lifetime as a
  `__constant__` one, and the plan's `upload` writes both (CUDA C++ Programming Guide, "Variable Memory Space
  Specifiers"). Initialised tables become `__device__ const`, so that they do not count as state; variables
  that neither the plan nor the code sets stay unchanged.

Not covered: constant arguments; texture references, which the shim already reads from global memory
(`kcurate.cuda_source.standalone.shim`).
"""

from __future__ import annotations

from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.records import Side, Upload, steps


def constant_to_global(subject: Subject) -> Side | NotApplicable:
    """Turn file-level `__constant__` variables into `__device__` ones, if the plan or the code sets them."""
    uploaded = {step.upload.encode() for step in steps(subject.side.plan) if isinstance(step, Upload)}
    edits = []
    for node in subject.tree.nodes("type_qualifier"):
        declaration = node.parent
        declares = declaration is not None and declaration.type == "declaration"
        if subject.tree.text(node) != b"__constant__" or not declares:
            continue
        words = subject.tree.text(declaration).split()
        declared = tuple(subject.tree.declared_by(declaration))
        if not declared or b"extern" in words or b"__device__" in words:
            continue
        if all(declaration.name in uploaded for declaration in declared):
            word = b"__device__"
        elif all(declaration.value is not None for declaration in declared):
            word = b"__device__" if {b"const", b"constexpr"} & set(words) else b"__device__ const"
        else:  # the judge would consider it mutable state
            continue
        edits.append(Edit(node.start_byte, node.end_byte, word))
    return subject.with_edits(edits, "no __constant__ variable that the plan or the code sets")


RULES: tuple[Rule, ...] = (
    Rule("constant-to-global", "constant-memory", "constant memory", constant_to_global),
)
