"""Rules on memory spaces: constant memory and texture references become plain global memory.

Why each is safe:

- constant-to-global: a `__device__` variable has the same type, size, initial value and lifetime as a
  `__constant__` one, and the plan's `upload` writes both (CUDA C++ Programming Guide, "Variable Memory Space
  Specifiers"). Initialised tables become `__device__ const`, so they do not count as state; variables that
  neither the plan nor the code sets stay.
- texture-to-global: the fetch functions of `kcurate.cuda_source.standalone.shim` are plain code; a call
  becomes the expression it stands for, including clamping; only fetches whose indices contain no calls or
  side effects are rewritten. The compiler sees through the class, so machine code is often the same.

Not covered: texture objects (plans have none), constant arguments, `tex2D` with unnormalised filtering.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcurate.cuda_source.parse.syntax_tree import Edit, Node, Tree
from kcurate.deopt.rules.base import Given, NotApplicable, Rule
from kcurate.records import Side, Upload, steps

FETCHES = (b"tex1Dfetch", b"tex1D", b"tex2D")
_EFFECTS = ("assignment_expression", "update_expression")


def constant_to_global(given: Given) -> Side | NotApplicable:
    """Turn file-level `__constant__` variables into `__device__` ones, if the plan or the code sets them."""
    uploaded = {step.upload.encode() for step in steps(given.side.plan) if isinstance(step, Upload)}
    edits = []
    for node in given.tree.nodes("type_qualifier"):
        declaration = node.parent
        declares = declaration is not None and declaration.type == "declaration"
        if given.tree.text(node) != b"__constant__" or not declares:
            continue
        words = given.tree.text(declaration).split()
        declared = tuple(given.tree.declared_by(declaration))
        if not declared or b"extern" in words or b"__device__" in words:
            continue
        if all(one.name in uploaded for one in declared):
            word = b"__device__"
        elif all(one.value is not None for one in declared):
            word = b"__device__" if {b"const", b"constexpr"} & set(words) else b"__device__ const"
        else:  # the judge would take it for state
            continue
        edits.append(Edit(node.start_byte, node.end_byte, word))
    return given.with_edits(edits, "no __constant__ variable that the plan or the code sets")


def texture_to_global(given: Given) -> Side | NotApplicable:
    """Turn fetches from texture references into clamped loads from their arrays."""
    textures = {
        one.name
        for child in given.tree.root.children
        for one in given.tree.declared(child)
        if one.type.startswith(b"texture<") or one.type == b"texture"
    }
    if not textures:
        return NotApplicable("no texture reference")
    return given.with_edits(_fetched(given.tree, textures), "no fetch with side-effect-free arguments")


def _fetched(tree: Tree, textures: set[bytes]) -> Iterator[Edit]:
    done = -1
    for node, name, arguments in tree.calls(*FETCHES):
        pure = all(
            not any(True for _ in tree.nodes(*_EFFECTS, "call_expression", within=a)) for a in arguments
        )
        expected = 3 if name == b"tex2D" else 2
        if len(arguments) != expected or tree.text(arguments[0]) not in textures or not pure:
            continue
        if node.start_byte >= done:
            yield Edit(node.start_byte, node.end_byte, _load(tree, name, arguments))
            done = node.end_byte


def _load(tree: Tree, name: bytes, arguments: tuple[Node, ...]) -> bytes:
    """The expression that a fetch stands for (see the shim); `::` as variables may be named max or min."""
    texture = tree.text(arguments[0])
    places = [tree.text(argument) for argument in arguments[1:]]
    whole = b"(int)(%b)" if name == b"tex1Dfetch" else b"(int)floorf(%b)"
    limits = (b"width", b"height")
    at = [
        b"::min(::max(%b, 0), %b.%b - 1)" % (whole % place, texture, limit)
        for place, limit in zip(places, limits, strict=False)
    ]
    index = at[0] if len(at) == 1 else b"%b * %b.width + %b" % (at[1], texture, at[0])
    return b"%b.data[%b]" % (texture, index)


RULES: tuple[Rule, ...] = (
    Rule("constant-to-global", "constant-memory", "constant memory", constant_to_global),
    Rule("texture-to-global", "texture-memory", "texture references", texture_to_global),
)
