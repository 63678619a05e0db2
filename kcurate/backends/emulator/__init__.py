"""Runs device code without a GPU: compiled as host C++, with the threads of a block as fibers.

| module | what |
|---|---|
| `assembly` | turns asm statements into C++ |
| `compiler` | `Compiler` of the emulator: compiles one side to a shared object |
| `device` | `Device` of the emulator |
| `evaluation_order` | operands and arguments evaluated from the left, as NVRTC does |
| `library` | a compiled side loaded into this process: its kernels and variables |
| `memory` | allocations of the emulated device: host memory, each between inaccessible pages |
| `seccomp` | a system call filter for processes that run device code natively |
| `source` | prepares CUDA C++ for a host compiler, where macros alone cannot do it |
| `tensor_maps` | TMA tensor maps in the emulator's layout |
| `toolchain` | the host's C++ compiler |

`include/` holds the only headers that device code sees, `runtime/` the code that runs it. Not covered: which
process may run which code (`kcurate.judge`).
"""
