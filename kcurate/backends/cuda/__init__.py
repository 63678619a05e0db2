"""Device code on NVIDIA GPUs: NVRTC to a cubin, launches through cuda-core. Importing this loads neither.

| module | what |
|---|---|
| `arrays` | arrays in a device's memory, made, compared and hidden where they lie by our own |
| `clock` | timing overheads and memory speed of a GPU |
| `compiler` | `Compiler` on NVRTC |
| `cubin` | reads a cubin's ELF sections, without tools and without a GPU. |
| `device` | `Device` on the CUDA driver |
| `driver` | CUDA driver calls, with error codes mapped to our two kinds of failure |
| `environment` | the environment of a verdict |
| `helpers` | our own device code (`helpers.cu`) |
| `host_headers` | stand-ins for the C and C++ headers that device code often includes |
| `loaded` | a loaded cubin |
| `nvrtc` | compiles CUDA C++ to a cubin through NVRTC, without toolkit or GPU |
| `ptxas` | PTX that Triton made, assembled to a cubin with the ptxas that Triton brings |
| `recorded_launches` | a GPU whose launches a profiler records, all or some of them |
| `slabs` | device memory in large pieces, divided here |
| `tensor_maps` | TMA tensor maps, encoded by the driver (CUDA Driver API, cuTensorMapEncodeTiled) |
| `timer` | timing primitives of a GPU beyond `Device`: events, graphs, a gate, a clean state |
| `unread` | what a kernel never reads, from the PTX that NVRTC made of it |
"""
