"""The meaning of each PTX instruction: one row per form, for the static check and for the emulator.

The rows are in `emulated_forms.txt`. An opcode with a row there or a name in `NOT_EMULATED` is allowed in a
side; every other opcode is refused. The emulator runs the forms of the rows; any other form of an allowed
opcode ends a run as unsupported. A row is `form | operands | C++`:

- form: the opcode, then its modifiers in order. `word` is required, `(a,b)` is one of these, `[a,b]` is
  optional and ignored by the emulator, `[...]*` is any number of these, `X=a,b` (or `X=[a,b]`) is one that
  the C++ refers to as `$X`, `%NAME` is a set in `SETS`.
- operands: `d` and `p` are written, the others read; `{a}` is a vector, `[m:S]` an address in state space `S`
  (without `S`: generic), `[m,{c}]` a tensor map's address with coordinates, `x:u32` has a type (default:
  `$T`), `x?` is optional.
- C++: the value that is written to `d` or `p`; a statement if there is neither or if it contains `$d`. `@f`
  is a function in `kcurate/backends/emulator/include/kcurate/ptx*.h`.

`.ftz` and `.sat` are applied to the operands and results of every form that has them. Source: PTX ISA 9.0,
"Instruction Set". Not covered: reading the rows (`kcurate.ptx.table`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SETS: Mapping[str, str] = {
    "INT": "u16,u32,u64,s16,s32,s64",
    "WORD": "u32,u64,s32,s64",
    "BITS": "b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64",
    "AXES": "1d,2d,3d,4d,5d",
    "SHORT": "f16,bf16,f16x2,bf16x2",
    "MEMORY": "b8,b16,b32,b64,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64",
    "SPACE": "global,shared,shared::cta,shared::cluster,local,const",
    "SHARED": "shared,shared::cta,shared::cluster",
    "ORDER": "relaxed,acquire,release,acq_rel,sc",
    "SCOPE": "cta,cluster,gpu,sys",
    "CACHE": "ca,cg,cs,lu,cv,wb,wt,L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,"
    "L1::no_allocate,L2::evict_normal,L2::evict_first,L2::evict_last,L2::cache_hint,L2::64B,L2::128B,L2::256B",
    "COMPARE": "eq,ne,lt,le,gt,ge,lo,ls,hi,hs,equ,neu,ltu,leu,gtu,geu,num,nan",
    "FP8": "e4m3,e5m2",
    "BYTE": "s8,u8",
    **{f"M64K{k}": ",".join(f"m64n{n}k{k}" for n in range(8, 257, 8)) for k in (8, 16, 32)},
    "M64INT": ",".join(f"m64n{n}k32" for n in (8, 24, *range(16, 257, 16))),
}

EMULATED = Path(__file__).with_name("emulated_forms.txt").read_text(encoding="utf-8")

# Allowed, but not emulated.
NOT_EMULATED = """
bfind bmsk discard dp2a fns mad24 madc mul24 set slct szext testp tex tld4 vabsdiff vabsdiff2 vadd vadd2 vadd4
vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wmma
"""

# Why the others that a reader may look for are refused.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("nanosleep", "pmevent", "trap", "brkpt"), "stops or delays a thread"),
    **dict.fromkeys(("call", "ret", "exit", "brx"), "leaves the asm statement"),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "moves the stack"),
    "tcgen05": "reaches tensor memory, which keeps its contents from launch to launch",
}

# Special registers for the time, the SM, a position on it, or a profiler's counters (without the %).
REFUSED_REGISTERS = (
    "clock", "globaltimer", "pm", "smid", "nsmid", "gridid", "envreg", "current_graph", "warpid", "nwarpid",
)  # fmt: skip

# Those that the emulator has, as C++.
SPECIAL_REGISTERS: Mapping[str, str] = {
    **{f"%tid.{axis}": f"::threadIdx.{axis}" for axis in "xyz"},
    **{f"%ntid.{axis}": f"::blockDim.{axis}" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"::blockIdx.{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"::gridDim.{axis}" for axis in "xyz"},
    **{f"%cluster_ctaid.{axis}": f"::kcu_cluster_index.{axis}" for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": f"::kcu_cluster_dim.{axis}" for axis in "xyz"},
    **{f"%clusterid.{axis}": f"(::blockIdx.{axis} / ::kcu_cluster_dim.{axis})" for axis in "xyz"},
    **{f"%nclusterid.{axis}": f"(::gridDim.{axis} / ::kcu_cluster_dim.{axis})" for axis in "xyz"},
    "%cluster_ctarank": "::kcu_shared_rank(0)",
    "%cluster_nctarank": "::kcu_ptx::cluster_blocks()",
    "%laneid": "::kcu_lane",
    "%warpid": "::kcu_ptx::warp_number()",
    "%lanemask_eq": "(1u << ::kcu_lane)",
    "%lanemask_lt": "((1u << ::kcu_lane) - 1)",
    "%lanemask_le": "((2u << ::kcu_lane) - 1)",
    "%lanemask_gt": "~((2u << ::kcu_lane) - 1)",
    "%lanemask_ge": "~((1u << ::kcu_lane) - 1)",
    "%dynamic_smem_size": "unsigned(::kcu_dynamic_bytes)",
    "WARP_SZ": "32",
}
