"""Rules on warps: shuffles and votes become exchanges through shared memory.

Each call becomes a call of an equivalent helper (CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp
Vote Functions"): every thread writes its value to its slot of a shared array; after `__syncwarp` with the
call's mask it reads the slots of the source lanes; another `__syncwarp` precedes the next use of the slots. A
shuffle reduction thus becomes a tree in shared memory.

Required: the largest block is known from the plan, and its slots fit beside the shared memory that the code
declares (48 KB of static shared memory in total); no inline assembly (which may rely on registers). Reading
an inactive lane, which is undefined for the shuffle, gives its old slot; a correct program does not do it.

Not covered: `__match`, `__reduce`, shuffles without `_sync`, cooperative groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcurate.cuda_source.rewrite.edits import Edit
from kcurate.deopt.rules.base import NotApplicable, Rule, Subject
from kcurate.deopt.rules.plans import block_threads, launches
from kcurate.records import Side

# Names of the calls, and the lane each reads from (`own` is the caller's lane within its group).
SHUFFLES: Mapping[bytes, tuple[bytes, bytes]] = {
    b"__shfl_sync": (b"lane_value", b"lane & (width - 1)"),
    b"__shfl_up_sync": (b"lane_value_up", b"own - lane < 0 ? own : own - lane"),
    b"__shfl_down_sync": (b"lane_value_down", b"own + lane >= width ? own : own + lane"),
    b"__shfl_xor_sync": (b"lane_value_xor", b"own ^ lane"),
}
VOTES: Mapping[bytes, tuple[bytes, bytes, bytes]] = {
    b"__ballot_sync": (b"lane_votes", b"unsigned", b"votes"),
    b"__any_sync": (b"lane_any", b"int", b"votes != 0"),
    b"__all_sync": (b"lane_all", b"int", b"votes == mask"),
}
_THREAD = b"threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
_SHUFFLE = b"""\
template <class T>
__device__ inline T %(name)b(unsigned mask, T value, int lane, int width = 32)
{
    __shared__ T slots[%(threads)d];
    const int thread = %(thread)b;
    const int own = thread & (width - 1);
    __syncwarp(mask);
    slots[thread] = value;
    __syncwarp(mask);
    const T other = slots[thread - own + (%(source)b)];
    __syncwarp(mask);
    return other;
}

"""
_VOTE = b"""\
__device__ inline %(type)b %(name)b(unsigned mask, int yes)
{
    __shared__ int slots[%(threads)d];
    const int thread = %(thread)b;
    __syncwarp(mask);
    slots[thread] = yes;
    __syncwarp(mask);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) != 0 && slots[(thread & ~31) + lane] != 0)
            votes |= 1u << lane;
    __syncwarp(mask);
    return %(result)b;
}

"""
# Static shared memory available to a block.
STATIC_BYTES = 48 * 1024
# Reserved for shared memory that the code declares; if it declares more, compilation fails.
DECLARED_BYTES = 24 * 1024
# The widest value that one hardware shuffle moves.
WIDEST_BYTES = 8


def through_shared(subject: Subject) -> Side | NotApplicable:
    """Exchange values between lanes through shared memory."""
    for node, name, arguments in subject.tree.calls(*SHUFFLES):
        if len(arguments) not in (3, 4) or (name == b"__shfl_xor_sync" and len(arguments) == 4):
            return NotApplicable(
                f"a shuffle of parts of a warp ({subject.tree.text(node).decode('latin-1')})"
            )
    helpers = {
        name: (wish, _SHUFFLE.replace(b"%(source)b", source)) for name, (wish, source) in SHUFFLES.items()
    }
    return _replaced(subject, helpers, "no shuffle")


def votes_counted(subject: Subject) -> Side | NotApplicable:
    """Collect the votes of a warp through shared memory."""
    helpers = {
        name: (wish, _VOTE.replace(b"%(type)b", type_).replace(b"%(result)b", result))
        for name, (wish, type_, result) in VOTES.items()
    }
    return _replaced(subject, helpers, "no vote")


def _replaced(
    subject: Subject, helper_texts: Mapping[bytes, tuple[bytes, bytes]], reason: str
) -> Side | NotApplicable:
    """Replace built-in functions by calls of helpers.

    `helper_texts`: preferred name and text of each helper.
    """
    tree = subject.tree
    used = {name for _, name, _ in tree.calls(*helper_texts)}
    helpers = {name: helper for name, helper in helper_texts.items() if name in used}
    if not helpers:
        return NotApplicable(f"{reason} across a warp")
    if any(True for _ in tree.nodes("asm_statement", "gnu_asm_expression")):
        return NotApplicable("inline assembly may rely on registers")
    threads = [block_threads(launch) for launch in launches(subject.side)]
    known_threads = [count for count in threads if count is not None]
    if not threads or len(known_threads) < len(threads):
        return NotApplicable("the block size is not known from the plan")
    most = (max(known_threads) + 31) // 32 * 32
    reserved = DECLARED_BYTES if b"__shared__" in tree.source else 0
    if len(helpers) * most * WIDEST_BYTES + reserved > STATIC_BYTES:
        return NotApplicable("one slot per thread does not fit in shared memory")
    names = {name: tree.unused_name(wish) for name, (wish, _) in helpers.items()}
    text = b"".join(
        helper.replace(b"%(name)b", names[name])
        .replace(b"%(threads)d", b"%d" % most)
        .replace(b"%(thread)b", _THREAD)
        for name, (_, helper) in helpers.items()
    )
    at = tree.helpers_at()
    edits = [Edit(at, at, text)]
    edits += [
        Edit(node.start_byte, node.start_byte + len(name), names[name])
        for node, name, _ in tree.calls(*helpers)
    ]
    return subject.with_edits(edits, reason)


RULES: tuple[Rule, ...] = (
    Rule("shuffle-to-shared", "warp-shuffle", "warp shuffles", through_shared),
    Rule("vote-to-shared", "warp-vote", "warp votes", votes_counted),
)
