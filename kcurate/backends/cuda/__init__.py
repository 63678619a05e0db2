"""Device code on NVIDIA GPUs: NVRTC to a cubin, launches through cuda-core. Importing this loads neither.

| module | what |
|---|---|
| `arrays` | arrays in device memory: created, compared and hidden there by our own kernels |
| `clock` | timing overheads and memory speed of a GPU |
| `compiler` | `Compiler` on NVRTC |
| `cubin` | reads a cubin's ELF sections, without tools and without a GPU |
| `device` | `Device` on the CUDA driver |
| `driver` | CUDA driver calls, with error codes mapped to our two kinds of failure |
| `environment` | the environment of a verdict |
| `helpers` | our own device code (`helpers.cu`) |
| `host_headers` | stand-ins for the C and C++ headers that device code often includes |
| `loaded` | a cubin loaded on a device |
| `nvrtc` | compiles CUDA C++ to a cubin through NVRTC, without toolkit or GPU |
| `ptxas` | assembles PTX from Triton to a cubin with the ptxas that ships with Triton |
| `recorded_launches` | a GPU whose launches a profiler records, all or some of them |
| `slabs` | large pieces of device memory, divided into allocations |
| `tensor_maps` | TMA tensor maps, encoded by the driver (`cuTensorMapEncodeTiled`) |
| `timer` | timing primitives of a GPU beyond `Device`: events, graphs, a gate, a clean state |
| `unread` | which arguments and loaded values a kernel leaves unused, from its PTX |
"""
