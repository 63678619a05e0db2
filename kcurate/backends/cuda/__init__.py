"""Runs device code on NVIDIA GPUs, with NVRTC and cuda-core. Importing this package loads neither.

| module | what |
|---|---|
| `arrays` | arrays in device memory: created, compared and hidden there by our own kernels |
| `clock` | timing overheads and memory speed of a GPU |
| `compiler` | `Compiler` on NVRTC |
| `cubin` | reads a cubin's ELF sections, without tools and without a GPU |
| `device` | `Device` on the CUDA driver |
| `driver` | CUDA driver calls, with error codes mapped to exceptions |
| `environment` | the environment of a verdict |
| `helpers` | our own device code (`helpers.cu`) |
| `host_headers` | stand-ins for the C and C++ headers that device code often includes |
| `loaded` | a cubin loaded on a device |
| `nvrtc` | compiles CUDA C++ to a cubin through NVRTC, without toolkit or GPU |
| `ptxas` | assembles PTX from Triton to a cubin with the ptxas that ships with Triton |
| `recorded_launches` | a GPU whose launches are recorded by a profiler |
| `slabs` | large pieces of device memory, divided into allocations |
| `tensor_maps` | TMA tensor maps, encoded by the driver (`cuTensorMapEncodeTiled`) |
| `timer` | timing on a GPU: events, graphs, a gate that holds back work, cache flushes |
| `unread` | which arguments and loaded values a kernel leaves unused, from its PTX |
"""
