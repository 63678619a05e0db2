"""Rule on asynchronous copies: `__pipeline_memcpy_async` becomes a plain load and store.

Why it is safe: such a copy may happen at any time between the call and the wait, so copying at the call is a
behaviour that a correct program allows; the bytes after `size - zfill` are zero, as documented ("Pipeline
Primitives Interface" in the CUDA C++ Programming Guide). Commits and waits then have no effect; barriers
stay. Only statement calls with a literal size of 4, 8 or 16 bytes are rewritten, and only if all copies in
the file have this form.

Not covered: `cuda::memcpy_async`, cooperative groups, `cp.async` in inline assembly.
"""

from __future__ import annotations

from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.statement_removal import line_of
from kcurate.records import Side

COPY = b"__pipeline_memcpy_async"
WORDS = {b"4": b"unsigned", b"8": b"uint2", b"16": b"uint4"}
_HELPER = b"""\
template <class T>
__device__ inline void %(name)b(void *to, const void *from, int zeros = 0)
{
    if (zeros == 0) {
        *static_cast<T *>(to) = *static_cast<const T *>(from);
        return;
    }
    unsigned char *bytes = static_cast<unsigned char *>(to);
    for (int i = 0; i < static_cast<int>(sizeof(T)); i++)
        bytes[i] = i < static_cast<int>(sizeof(T)) - zeros ? static_cast<const unsigned char *>(from)[i] : 0;
}

"""


def plain_copies(subject: Subject) -> Side | NotApplicable:
    """Copy to shared memory synchronously, through registers."""
    tree, source = subject.tree, subject.tree.source
    if b"cp.async" in source or (b"memcpy_async" in source.replace(COPY, b"")):
        return NotApplicable("an unsupported kind of asynchronous copy")
    name, edits = tree.unused_name(b"copy_word"), []
    for node, _, arguments in tree.calls(COPY):
        word = WORDS.get(tree.text(arguments[2])) if len(arguments) in (3, 4) else None
        if word is None:
            return NotApplicable("a copy whose size is not 4, 8 or 16")
        edits.append(Edit(node.start_byte, arguments[0].start_byte, b"%b<%b>(" % (name, word)))
        edits.append(Edit(arguments[1].end_byte, arguments[2].end_byte))
    if not edits:
        return NotApplicable("no asynchronous copy")
    if 2 * blank_literals(source).count(COPY) != len(edits):
        return NotApplicable("a copy inside a macro")
    for node, _, _ in tree.calls(b"__pipeline_commit", b"__pipeline_wait_prior"):
        if node.parent.type != "expression_statement":
            return NotApplicable("a commit or wait inside an expression")
        whole = node.parent.parent.type == "compound_statement"
        span = line_of(source, node.parent) if whole else (node.start_byte, node.end_byte)
        edits.append(Edit(*span))
    at = tree.helpers_at()
    return subject.with_edits([*edits, Edit(at, at, _HELPER.replace(b"%(name)b", name))], "")


RULES: tuple[Rule, ...] = (
    Rule("async-to-plain", "async-copy", "asynchronous copies to shared memory", plain_copies),
)
