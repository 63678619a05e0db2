// A stand-in for libcudart: programs built with `nvcc -cudart shared` run without a GPU. Device memory is host
// memory, copies and fills are real, a launch is written down instead of run (or run as well, where
// KCURATE_CAPTURE_RUN names an index of emulated kernels). What is missing answers cudaErrorNotSupported (stubs.inc,
// made from the headers when this is built).

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "recording.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

using kcurate::Recorder;

constexpr size_t ALIGNMENT = 512;
// From here on memory takes up room only where it is written: programs size buffers by what they are told is free.
constexpr size_t MAPPED_BYTES = size_t{1} << 20;
// What a program may believe of the GPU that is not there.
constexpr int MULTIPROCESSORS = 132, MAX_THREADS = 1024, WARP = 32;
constexpr size_t SHARED_BYTES = 232448, DEVICE_BYTES = size_t{80} << 30;
constexpr float EVENT_MS = 0.01f;

// `mapped`: how many bytes are to be unmapped; 0: the memory was not mapped. `own`: it is not the program's.
// `unknown`: nothing wrote there yet, or a kernel that did not run may have.
struct Block {
  size_t size;
  const char* kind;
  size_t mapped = 0;
  bool own = true, unknown = false;
};

struct Variable {
  std::string name;
  char* place;
  size_t size;
  bool written = false;
};

// Of kernels' parameters, by name, where a binary tells them. Two binaries may hold kernels of one name.
using Sizes = std::map<std::string, std::vector<size_t>>;

struct Stub {
  std::string name;
  const Sizes* sizes;
};

struct Launching {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

struct State {
  std::mutex mutex;
  std::map<uintptr_t, Block> blocks;
  std::map<const void*, Stub> kernels;        // by the host's stub
  std::map<const void*, Variable> variables;  // by the host's shadow
};

State& state() {
  static State* one = new State;  // outlives static destructors that free memory
  return *one;
}

thread_local std::vector<Launching> configurations;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t allocate(void** to, size_t size, const char* kind) {
  if (to == nullptr) return failed(cudaErrorInvalidValue);
  *to = nullptr;
  if (size == 0) return cudaSuccess;
  if (size > DEVICE_BYTES) return failed(cudaErrorMemoryAllocation);
  size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const bool mapped = rounded >= MAPPED_BYTES;
  void* memory = mapped ? mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                        : std::aligned_alloc(ALIGNMENT, rounded);
  if (memory == nullptr || memory == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
  if (!mapped) std::memset(memory, 0, rounded);
  std::lock_guard<std::mutex> held(state().mutex);
  state().blocks[reinterpret_cast<uintptr_t>(memory)] = {size, kind, mapped ? rounded : 0, true, kind[0] == 'd'};
  *to = memory;
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  std::lock_guard<std::mutex> held(state().mutex);
  auto found = state().blocks.find(reinterpret_cast<uintptr_t>(memory));
  if (found == state().blocks.end() || !found->second.own) return failed(cudaErrorInvalidValue);
  const size_t mapped = found->second.mapped;
  state().blocks.erase(found);
  if (mapped)
    munmap(memory, mapped);
  else
    std::free(memory);
  return cudaSuccess;
}

// The allocation that holds an address, or the end. The state is locked.
std::map<uintptr_t, Block>::iterator holder(uintptr_t address) {
  auto& blocks = state().blocks;
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return blocks.end();
  auto found = std::prev(after);
  return address < found->first + found->second.size ? found : blocks.end();
}

// --- What a binary says of its kernels' parameters: `.nv.info.<kernel>` of a cubin in the fat binary.

constexpr uint32_t FATBIN = 0xBA55ED50;
// EIFMT_HVAL, EIFMT_SVAL; EIATTR_KPARAM_INFO, and the same for kernels with large parameters;
// EIATTR_CBANK_PARAM_SIZE.
constexpr uint8_t SHORT = 0x03, SIZED = 0x04, PARAMETER = 0x17, LARGE_PARAMETER = 0x45, ALL_PARAMETERS = 0x19;
constexpr uint64_t LZ4 = 0x2000, ZSTD = 0x8000;

struct Fatbin {
  uint32_t magic;
  uint16_t version, header;
  uint64_t size;
};

struct Entry {
  uint16_t kind, version;
  uint32_t header;
  uint64_t padded;
  uint32_t compressed, unused;
  uint16_t minor, major;
  uint32_t arch, name_offset, name_size;
  uint64_t flags, unused2, uncompressed;
};

bool unpack_lz4(const uint8_t* from, size_t size, std::vector<uint8_t>& to) {
  const uint8_t *end = from + size, *at = from;
  size_t out = 0;
  auto length = [&](size_t start) {
    size_t total = start;
    if (start == 15)
      while (at < end) {
        total += *at;
        if (*at++ != 255) break;
      }
    return total;
  };
  while (at < end) {
    uint8_t token = *at++;
    size_t literals = length(token >> 4);
    if (literals > size_t(end - at) || literals > to.size() - out) return false;
    std::memcpy(&to[out], at, literals);
    at += literals, out += literals;
    if (at >= end) break;
    if (end - at < 2) return false;
    size_t back = at[0] | at[1] << 8;
    at += 2;
    size_t matched = length(token & 15) + 4;
    if (back == 0 || back > out || matched > to.size() - out) return false;
    for (size_t i = 0; i < matched; i++, out++) to[out] = to[out - back];
  }
  return out == to.size();
}

bool unpack_zstd(const uint8_t* from, size_t size, std::vector<uint8_t>& to) {
  using Decompress = size_t (*)(void*, size_t, const void*, size_t);
  static void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  static auto decompress = library ? reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress")) : nullptr;
  return decompress != nullptr && decompress(to.data(), to.size(), from, size) == to.size();
}

void read_info(const std::string& kernel, const uint8_t* at, const uint8_t* end, Sizes& to) {
  std::map<unsigned, size_t> sizes;  // by the parameter's number
  size_t all = 0;                    // bytes
  while (end - at >= 4) {
    uint16_t size;
    std::memcpy(&size, at + 2, sizeof size);
    if (at[0] == SIZED && size_t(end - at) < size_t{4} + size) return;
    if (at[0] == SHORT && at[1] == ALL_PARAMETERS) all = size;
    if (at[0] == SIZED && (at[1] == PARAMETER || at[1] == LARGE_PARAMETER) && size >= 12) {
      uint16_t ordinal, large;
      uint32_t packed;
      std::memcpy(&ordinal, at + 8, sizeof ordinal);
      std::memcpy(&large, at + 12, sizeof large);
      std::memcpy(&packed, at + 12, sizeof packed);
      sizes[ordinal] = at[1] == PARAMETER ? packed >> 18 : large;
    }
    at += at[0] == SIZED ? 4 + size : 4;
  }
  std::vector<size_t> found;
  size_t told = 0;
  for (auto& [ordinal, size] : sizes)
    if (ordinal == found.size()) found.push_back(size), told += size;
  if (found.size() == sizes.size() && (told || !all)) to[kernel] = found;  // else in a way that is not known here
}

void read_cubin(const uint8_t* data, size_t size, Sizes& to) {
  if (size < sizeof(Elf64_Ehdr) || std::memcmp(data, ELFMAG, SELFMAG) != 0) return;
  Elf64_Ehdr header;
  std::memcpy(&header, data, sizeof header);
  auto section = [&](unsigned number, Elf64_Shdr& to) {
    size_t place = header.e_shoff + size_t{number} * header.e_shentsize;
    if (place + sizeof to > size) return false;
    std::memcpy(&to, data + place, sizeof to);
    return to.sh_type == SHT_NOBITS || to.sh_offset + to.sh_size <= size;
  };
  Elf64_Shdr names, one;
  if (!section(header.e_shstrndx, names)) return;
  const std::string prefix = ".nv.info.";
  for (unsigned number = 0; number < header.e_shnum; number++) {
    if (!section(number, one) || one.sh_name >= names.sh_size) continue;
    const char* text = reinterpret_cast<const char*>(data + names.sh_offset + one.sh_name);
    std::string name(text, strnlen(text, names.sh_size - one.sh_name));
    if (name.rfind(prefix, 0) == 0 && one.sh_type != SHT_NOBITS)
      read_info(name.substr(prefix.size()), data + one.sh_offset, data + one.sh_offset + one.sh_size, to);
  }
}

void read_fatbin(const uint8_t* data, Sizes& to) {
  Fatbin header;
  std::memcpy(&header, data, sizeof header);
  if (header.magic != FATBIN) return;
  const uint8_t *at = data + header.header, *end = at + header.size;
  while (size_t(end - at) >= sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    const uint8_t* body = at + entry.header;
    if (entry.header < sizeof entry || entry.padded > size_t(end - body)) return;
    if (entry.kind == 2) {
      std::vector<uint8_t> plain(entry.flags & (LZ4 | ZSTD) ? entry.uncompressed : 0);
      if (plain.empty())
        read_cubin(body, entry.padded, to);
      else if ((entry.flags & ZSTD ? unpack_zstd : unpack_lz4)(body, entry.compressed, plain))
        read_cubin(plain.data(), plain.size(), to);
    }
    at = body + entry.padded;
  }
}

// --- Kernels that can run: libraries of the emulator (kcurate/backends/emulator/runtime/runtime.cpp)

constexpr double LIMIT_S = 60;
constexpr size_t ARGUMENT_ALIGNMENT = 32;

struct EmulatedEntry {
  const char* name;
  void* invoke;
  unsigned count;
  const unsigned* sizes;
};
struct EmulatedSymbol {
  const char* name;
  void* address;
  unsigned long size;
};

struct Emulated {
  std::string path;
  std::vector<std::string> variables;
  bool tried = false;
  int (*launch)(unsigned, const unsigned*, unsigned long, int, void**, double) = nullptr;
  const char* (*message)() = nullptr;
  const EmulatedEntry* entry = nullptr;
  std::vector<const EmulatedSymbol*> symbols;
};

std::map<std::string, Emulated>& emulated() {
  static auto* found = [] {
    auto* made = new std::map<std::string, Emulated>;
    const char* index = std::getenv("KCURATE_CAPTURE_RUN");
    std::ifstream file(index ? index : "");
    for (std::string line; std::getline(file, line);) {
      const size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (second == std::string::npos) continue;
      Emulated& one = (*made)[line.substr(0, first)];
      one.path = line.substr(first + 1, second - first - 1);
      for (size_t at = second + 1; at < line.size();) {
        const size_t comma = std::min(line.find(',', at), line.size());
        one.variables.push_back(line.substr(at, comma - at));
        at = comma + 1;
      }
    }
    return made;
  }();
  return *found;
}

// `ns::f<float>` of `void ns::f<float>(float*)`.
std::string instance(const std::string& mangled) {
  std::string name = kcurate::demangled(mangled);
  int depth = 0;
  if (!name.empty() && name.back() == ')')
    for (size_t at = name.size(); at--;) {
      depth += (name[at] == ')') - (name[at] == '(');
      if (!depth) {
        name.resize(at);
        break;
      }
    }
  depth = 0;
  for (size_t at = name.size(); at--;) {
    depth += (name[at] == '>') - (name[at] == '<');
    if (!depth && name[at] == ' ') return name.substr(at + 1);
  }
  return name;
}

void open_emulated(Emulated& one) {
  one.tried = true;
  dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  void* library = dlopen(one.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Recorder::instance().note("run_failed", dlerror());
  auto open = reinterpret_cast<int (*)()>(dlsym(library, "kcu_open"));
  auto entry = reinterpret_cast<const EmulatedEntry* (*)(unsigned)>(dlsym(library, "kcu_entry"));
  auto symbol = reinterpret_cast<const EmulatedSymbol* (*)(unsigned)>(dlsym(library, "kcu_symbol"));
  one.message = reinterpret_cast<decltype(one.message)>(dlsym(library, "kcu_message"));
  auto launch = reinterpret_cast<decltype(one.launch)>(dlsym(library, "kcu_launch"));
  if (!open || !entry || !symbol || !one.message || !launch || open() || !(one.entry = entry(0))) return;
  for (unsigned i = 0; const EmulatedSymbol* found = symbol(i); i++) one.symbols.push_back(found);
  one.launch = launch;
}

// Copy the program's variables into the library before a launch, and back after it.
void exchange(const Emulated& one, bool before) {
  for (size_t i = 0; i < one.symbols.size() && i < one.variables.size(); i++)
    for (auto& [shadow, variable] : state().variables)
      if (kcurate::plain_name(variable.name) == one.variables[i] && variable.size == one.symbols[i]->size) {
        void* place = variable.place;
        std::memcpy(before ? one.symbols[i]->address : place, before ? place : one.symbols[i]->address, variable.size);
      }
}

// Whether it ran. `sizes`: of the arguments that the program passes; null: not known.
bool run(const std::string& kernel, const kcurate::Launch& one, void** args, const std::vector<size_t>* sizes) {
  auto found = emulated().find(instance(kernel));
  if (found == emulated().end()) return false;
  Emulated& library = found->second;
  if (!library.tried) open_emulated(library);
  if (library.launch == nullptr) return false;
  for (unsigned i = 0; sizes && i < std::max<size_t>(library.entry->count, sizes->size()); i++)
    if (i >= library.entry->count || i >= sizes->size() || library.entry->sizes[i] != (*sizes)[i])
      return Recorder::instance().note("run_failed", kernel + ": its parameters are not those that extract found"),
             false;
  // Aligned copies: a parameter may be a struct of vectors.
  std::vector<std::vector<char>> storage;
  std::vector<void*> given;
  for (unsigned i = 0; i < library.entry->count; i++) {
    storage.emplace_back(library.entry->sizes[i] + ARGUMENT_ALIGNMENT);
    void* place = storage.back().data();
    size_t room = storage.back().size();
    place = std::align(ARGUMENT_ALIGNMENT, library.entry->sizes[i], place, room);
    std::memcpy(place, args[i], library.entry->sizes[i]);
    given.push_back(place);
  }
  given.push_back(nullptr);
  const unsigned shape[9] = {one.grid.x,  one.grid.y,    one.grid.z,    one.block.x,  one.block.y,
                             one.block.z, one.cluster.x, one.cluster.y, one.cluster.z};
  exchange(library, true);
  const bool failed = library.launch(0, shape, one.shared, one.cooperative, given.data(), LIMIT_S);
  if (failed) Recorder::instance().note("run_failed", kernel + ": " + library.message());
  exchange(library, false);
  return !failed;
}

// --- Launches

bool find(uint64_t address, kcurate::Allocation& found) {
  auto memory = holder(address);
  if (memory == state().blocks.end()) return false;
  found = {memory->first, memory->second.size, memory->second.kind};
  return true;
}

bool read(uint64_t address, void* to, size_t bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  return true;
}

// The kernel did not run, and may have written to whatever it was given.
void forget(const kcurate::Launch& one) {
  for (const auto& buffer : one.buffers) state().blocks.at(buffer.place.base).unknown = true;
}

kcurate::Dim3 extent(const dim3& one) { return {one.x, one.y, one.z}; }

cudaError_t launch(const void* stub, dim3 grid, dim3 block, void** args, size_t shared, kcurate::Dim3 cluster,
                   bool cooperative) {
  State& all = state();
  std::lock_guard<std::mutex> held(all.mutex);
  auto stubbed = all.kernels.find(stub);
  if (stubbed == all.kernels.end()) return failed(cudaErrorInvalidDeviceFunction);
  const std::string& name = stubbed->second.name;
  if (!block.x || !block.y || !block.z || uint64_t{block.x} * block.y * block.z > MAX_THREADS || !grid.x || !grid.y ||
      !grid.z)
    return failed(cudaErrorInvalidConfiguration);
  Recorder& recorder = Recorder::instance();
  if (!recorder.enabled()) return cudaSuccess;
  recorder.describe("cudart", "none");
  kcurate::Launch one;
  one.kernel = name;
  one.grid = extent(grid), one.block = extent(block), one.cluster = cluster;
  one.shared = shared, one.cooperative = cooperative;
  const Sizes& told = *stubbed->second.sizes;
  const auto known = told.find(name);
  const std::vector<size_t>* sizes = known == told.end() ? nullptr : &known->second;
  one.args_known = sizes != nullptr;
  for (size_t i = 0; sizes && i < sizes->size(); i++) one.add_argument(args[i], (*sizes)[i], find);
  if (!recorder.wanted(name)) {
    if (!run(name, one, args, sizes)) forget(one);
    recorder.launched_other(name);
    return cudaSuccess;
  }
  for (auto& buffer : one.buffers) buffer.unknown = all.blocks.at(buffer.place.base).unknown;
  const kcurate::Form form = recorder.begin(one);
  if (form.look) {
    for (auto& [shadow, variable] : all.variables)
      if (variable.written)
        one.symbols.push_back({variable.name, "", reinterpret_cast<uint64_t>(variable.place), variable.size});
    recorder.look_before(one, read);
  }
  if (!run(name, one, args, sizes)) forget(one);
  if (form.look && !emulated().empty()) recorder.look_after(one, read);
  recorder.launched(form, one);
  return cudaSuccess;
}

Variable* variable(const void* symbol) {
  auto found = state().variables.find(symbol);
  return found == state().variables.end() ? nullptr : &found->second;
}

// Whether rows may lie there: not at null, and not beyond the end of the allocation that they begin in.
bool inside(const void* place, size_t pitch, size_t width, size_t rows) {
  if (!width || !rows) return true;
  if (place == nullptr) return false;
  const auto address = reinterpret_cast<uintptr_t>(place);
  std::lock_guard<std::mutex> held(state().mutex);
  auto memory = holder(address);
  return memory == state().blocks.end() ||
         (rows - 1) * pitch + width <= memory->first + memory->second.size - address;
}

// The program wrote there: what it copied from (null: it filled) decides whether the contents are known.
void written(const void* to, const void* from = nullptr) {
  std::lock_guard<std::mutex> held(state().mutex);
  auto target = holder(reinterpret_cast<uintptr_t>(to)), source = holder(reinterpret_cast<uintptr_t>(from));
  if (target != state().blocks.end())
    target->second.unknown = source != state().blocks.end() && source->second.unknown;
}

cudaError_t fill_rows(void* to, size_t pitch, int value, size_t width, size_t rows) {
  if (!inside(to, pitch, width, rows)) return failed(cudaErrorInvalidValue);
  for (size_t row = 0; row < rows && width; row++) std::memset(static_cast<char*>(to) + row * pitch, value, width);
  written(to);
  return cudaSuccess;
}

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows) {
  if (!inside(to, to_pitch, width, rows) || !inside(from, from_pitch, width, rows))
    return failed(cudaErrorInvalidValue);
  if (!width) return cudaSuccess;
  for (size_t row = 0; row < rows; row++)
    std::memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  written(to, from);
  return cudaSuccess;
}

template <class Handle>
cudaError_t made(Handle* to) {
  *to = reinterpret_cast<Handle>(new char);
  return cudaSuccess;
}

}  // namespace

// --- What a compiled program registers

API void** __cudaRegisterFatBinary(void* wrapper) {
  struct {
    uint32_t magic, version;
    const uint8_t* data;
  } found;
  std::memcpy(&found, wrapper, sizeof found);
  std::lock_guard<std::mutex> held(state().mutex);
  auto* sizes = new Sizes;  // the handle: for as long as there may be launches
  read_fatbin(found.data, *sizes);
  return reinterpret_cast<void**>(sizes);
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API char __cudaInitModule(void**) { return 1; }

API void __cudaRegisterFunction(void** binary, const char* stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                int*) {
  std::lock_guard<std::mutex> held(state().mutex);
  state().kernels[stub] = {name, reinterpret_cast<const Sizes*>(binary)};
}

API void __cudaRegisterVar(void**, char* shadow, char*, const char* name, int, size_t size, int, int) {
  std::lock_guard<std::mutex> held(state().mutex);
  state().variables[shadow] = {name, static_cast<char*>(std::calloc(1, size ? size : 1)), size};
}

API void __cudaRegisterManagedVar(void**, void** shadow, char*, const char* name, int, size_t size, int, int) {
  allocate(shadow, size, "managed");
  std::lock_guard<std::mutex> held(state().mutex);
  state().variables[*shadow] = {name, static_cast<char*>(*shadow), size, true};
}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return failed(cudaErrorMissingConfiguration);
  Launching one = configurations.back();
  configurations.pop_back();
  *grid = one.grid, *block = one.block, *shared = one.shared;
  *static_cast<cudaStream_t*>(stream) = one.stream;
  return cudaSuccess;
}

// A kernel's handle is its stub.
API cudaError_t __cudaGetKernel(cudaKernel_t* to, const void* stub) {
  *to = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
API cudaError_t cudaGetKernel(cudaKernel_t* to, const void* stub) { return __cudaGetKernel(to, stub); }

API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                   cudaStream_t) {
  return launch(kernel, grid, block, args, shared, {}, false);
}
API cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, args, shared, {}, false);
}
API cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared,
                                            cudaStream_t) {
  return launch(kernel, grid, block, args, shared, {}, true);
}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** args) {
  kcurate::Dim3 cluster;
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute& one = config->attrs[i];
    if (one.id == cudaLaunchAttributeClusterDimension)
      cluster = {one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z};
    if (one.id == cudaLaunchAttributeCooperative) cooperative = one.val.cooperative;
  }
  return launch(kernel, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, cluster, cooperative);
}

// --- Memory

API cudaError_t cudaMalloc(void** to, size_t size) { return allocate(to, size, "device"); }
API cudaError_t cudaMallocAsync(void** to, size_t size, cudaStream_t) { return allocate(to, size, "device"); }
API cudaError_t cudaMallocManaged(void** to, size_t size, unsigned) { return allocate(to, size, "managed"); }
API cudaError_t cudaMallocHost(void** to, size_t size) { return allocate(to, size, "host"); }
API cudaError_t cudaHostAlloc(void** to, size_t size, unsigned) { return allocate(to, size, "host"); }
API cudaError_t cudaMallocPitch(void** to, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return allocate(to, *pitch * height, "device");
}
API cudaError_t cudaMalloc3D(cudaPitchedPtr* to, cudaExtent extent) {
  to->xsize = extent.width, to->ysize = extent.height;
  return cudaMallocPitch(&to->ptr, &to->pitch, extent.width, extent.height * extent.depth);
}
API cudaError_t cudaFree(void* memory) { return release(memory); }
API cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return release(memory); }
API cudaError_t cudaFreeHost(void* memory) { return release(memory); }
API cudaError_t cudaHostRegister(void* memory, size_t size, unsigned) {
  std::lock_guard<std::mutex> held(state().mutex);
  state().blocks[reinterpret_cast<uintptr_t>(memory)] = {size, "host", 0, false};
  return cudaSuccess;
}
API cudaError_t cudaHostUnregister(void* memory) {
  std::lock_guard<std::mutex> held(state().mutex);
  return state().blocks.erase(reinterpret_cast<uintptr_t>(memory)) ? cudaSuccess
                                                                   : failed(cudaErrorHostMemoryNotRegistered);
}
API cudaError_t cudaHostGetDevicePointer(void** to, void* memory, unsigned) {
  *to = memory;
  return cudaSuccess;
}
API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* address) {
  std::lock_guard<std::mutex> held(state().mutex);
  auto memory = holder(reinterpret_cast<uintptr_t>(address));
  *to = {};
  if (memory == state().blocks.end()) return cudaSuccess;
  const char kind = memory->second.kind[0];
  to->type = kind == 'd' ? cudaMemoryTypeDevice : kind == 'm' ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
  to->devicePointer = const_cast<void*>(address);
  to->hostPointer = kind == 'd' ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}
API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = DEVICE_BYTES;
  return cudaSuccess;
}

API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
  return copy_rows(to, 0, from, 0, size, 1);
}
API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind, cudaStream_t) {
  return copy_rows(to, 0, from, 0, size, 1);
}
API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  return copy_rows(to, 0, from, 0, size, 1);
}
API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t) {
  return copy_rows(to, 0, from, 0, size, 1);
}
API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                             size_t height, cudaMemcpyKind) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                  size_t height, cudaMemcpyKind, cudaStream_t) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* given) {
  if (given->srcArray != nullptr || given->dstArray != nullptr) return failed(cudaErrorNotSupported);
  const cudaPitchedPtr &from = given->srcPtr, &to = given->dstPtr;
  auto place = [](const cudaPitchedPtr& memory, const cudaPos& at, size_t slice) {
    return static_cast<char*>(memory.ptr) + at.x + memory.pitch * (at.y + memory.ysize * (at.z + slice));
  };
  cudaError_t done = cudaSuccess;
  for (size_t slice = 0; slice < given->extent.depth && done == cudaSuccess; slice++)
    done = copy_rows(place(to, given->dstPos, slice), to.pitch, place(from, given->srcPos, slice), from.pitch,
                     given->extent.width, given->extent.height);
  return done;
}
API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* given, cudaStream_t) { return cudaMemcpy3D(given); }

API cudaError_t cudaMemset(void* to, int value, size_t size) {
  return fill_rows(to, 0, value, size, 1);
}
API cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) { return cudaMemset(to, value, size); }
API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return fill_rows(to, pitch, value, width, height);
}
API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t) {
  return cudaMemset2D(to, pitch, value, width, height);
}
API cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return cudaMemset2D(to.ptr, to.pitch, value, extent.width, extent.height * extent.depth);
}

API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind) {
  std::lock_guard<std::mutex> held(state().mutex);
  Variable* found = variable(symbol);
  if (found == nullptr) return failed(cudaErrorInvalidSymbol);
  if (offset > found->size || size > found->size - offset) return failed(cudaErrorInvalidValue);
  found->written = true;
  std::memmove(found->place + offset, from, size);
  return cudaSuccess;
}
API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t size, size_t offset,
                                        cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpyToSymbol(symbol, from, size, offset, kind);
}
API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind) {
  std::lock_guard<std::mutex> held(state().mutex);
  Variable* found = variable(symbol);
  if (found == nullptr) return failed(cudaErrorInvalidSymbol);
  if (offset > found->size || size > found->size - offset) return failed(cudaErrorInvalidValue);
  std::memmove(to, found->place + offset, size);
  return cudaSuccess;
}
API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind,
                                          cudaStream_t) {
  return cudaMemcpyFromSymbol(to, symbol, size, offset, kind);
}
// Whoever asks for the address may write there.
API cudaError_t cudaGetSymbolAddress(void** to, const void* symbol) {
  std::lock_guard<std::mutex> held(state().mutex);
  Variable* found = variable(symbol);
  if (found == nullptr) return failed(cudaErrorInvalidSymbol);
  found->written = true;
  *to = found->place;
  return cudaSuccess;
}
API cudaError_t cudaGetSymbolSize(size_t* to, const void* symbol) {
  std::lock_guard<std::mutex> held(state().mutex);
  Variable* found = variable(symbol);
  if (found == nullptr) return failed(cudaErrorInvalidSymbol);
  *to = found->size;
  return cudaSuccess;
}

// --- Devices, streams, events: there is one device, and all work is done when it is asked for

API cudaError_t cudaGetDeviceCount(int* to) {
  *to = 1;
  return cudaSuccess;
}
API cudaError_t cudaGetDevice(int* to) {
  *to = 0;
  return cudaSuccess;
}
API cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice); }
API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
  *to = {};
  std::strcpy(to->name, "kcurate capture (no GPU)");
  to->major = 9, to->minor = 0;
  to->multiProcessorCount = MULTIPROCESSORS;
  to->totalGlobalMem = DEVICE_BYTES;
  to->warpSize = WARP;
  to->maxThreadsPerBlock = MAX_THREADS;
  to->maxThreadsPerMultiProcessor = 2 * MAX_THREADS;
  to->maxThreadsDim[0] = to->maxThreadsDim[1] = MAX_THREADS, to->maxThreadsDim[2] = 64;
  to->maxGridSize[0] = 2147483647, to->maxGridSize[1] = to->maxGridSize[2] = 65535;
  to->sharedMemPerBlock = 49152;
  to->sharedMemPerBlockOptin = to->sharedMemPerMultiprocessor = SHARED_BYTES;
  to->regsPerBlock = to->regsPerMultiprocessor = 65536;
  to->totalConstMem = 65536;
  to->l2CacheSize = 50 << 20;
  to->unifiedAddressing = to->managedMemory = to->concurrentManagedAccess = to->cooperativeLaunch = 1;
  to->concurrentKernels = to->canMapHostMemory = 1;
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetAttribute(int* to, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *to = MAX_THREADS;
      break;
    case cudaDevAttrWarpSize:
      *to = WARP;
      break;
    case cudaDevAttrMultiProcessorCount:
      *to = MULTIPROCESSORS;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *to = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *to = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *to = 49152;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *to = SHARED_BYTES;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *to = 2 * MAX_THREADS;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *to = 65536;
      break;
    case cudaDevAttrMaxGridDimX:
      *to = 2147483647;
      break;
    case cudaDevAttrL2CacheSize:
      *to = 50 << 20;
      break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrUnifiedAddressing:
      *to = 1;
      break;
    default:
      *to = 0;
  }
  return cudaSuccess;
}
API cudaError_t cudaDeviceCanAccessPeer(int* to, int, int) {
  *to = 0;
  return cudaSuccess;
}
API cudaError_t cudaDriverGetVersion(int* to) {
  *to = CUDART_VERSION;
  return cudaSuccess;
}
API cudaError_t cudaRuntimeGetVersion(int* to) {
  *to = CUDART_VERSION;
  return cudaSuccess;
}
API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void*) {
  *to = {};
  to->maxThreadsPerBlock = MAX_THREADS;
  to->numRegs = WARP;
  to->binaryVersion = to->ptxVersion = 90;
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* to, const void*, int threads, size_t) {
  *to = threads > 0 ? 2 * MAX_THREADS / threads : 0;
  return cudaSuccess;
}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* to, const void* kernel, int threads,
                                                                       size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(to, kernel, threads, shared);
}
API cudaError_t cudaStreamCreate(cudaStream_t* to) { return made(to); }
API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* to, unsigned) { return made(to); }
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* to, unsigned, int) { return made(to); }
API cudaError_t cudaEventCreate(cudaEvent_t* to) { return made(to); }
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* to, unsigned) { return made(to); }
API cudaError_t cudaEventElapsedTime(float* to, cudaEvent_t, cudaEvent_t) {
  *to = EVENT_MS;
  return cudaSuccess;
}
API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* to) {
  *to = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
// The host function of a stream runs at once.
API cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
  function(data);
  return cudaSuccess;
}

API cudaError_t cudaGetLastError() {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
API cudaError_t cudaPeekAtLastError() { return last_error; }
API const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : error == cudaErrorNotSupported ? "cudaErrorNotSupported" : "cudaError";
}
API const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    default:
      return "error of kcurate's stand-in for the CUDA runtime";
  }
}

// What needs no answer but success.
#define SUCCEEDS(name, ...) \
  API cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
SUCCEEDS(cudaDeviceSynchronize)
SUCCEEDS(cudaDeviceReset)
SUCCEEDS(cudaSetDeviceFlags, unsigned)
SUCCEEDS(cudaInitDevice, int, unsigned, unsigned)
SUCCEEDS(cudaDeviceSetLimit, cudaLimit, size_t)
SUCCEEDS(cudaDeviceSetCacheConfig, cudaFuncCache)
SUCCEEDS(cudaFuncSetCacheConfig, const void*, cudaFuncCache)
SUCCEEDS(cudaFuncSetAttribute, const void*, cudaFuncAttribute, int)
SUCCEEDS(cudaStreamDestroy, cudaStream_t)
SUCCEEDS(cudaStreamSynchronize, cudaStream_t)
SUCCEEDS(cudaStreamQuery, cudaStream_t)
SUCCEEDS(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
SUCCEEDS(cudaStreamAttachMemAsync, cudaStream_t, void*, size_t, unsigned)
SUCCEEDS(cudaEventRecord, cudaEvent_t, cudaStream_t)
SUCCEEDS(cudaEventRecordWithFlags, cudaEvent_t, cudaStream_t, unsigned)
SUCCEEDS(cudaEventSynchronize, cudaEvent_t)
SUCCEEDS(cudaEventQuery, cudaEvent_t)
SUCCEEDS(cudaEventDestroy, cudaEvent_t)
SUCCEEDS(cudaMemAdvise, const void*, size_t, cudaMemoryAdvise, cudaMemLocation)
SUCCEEDS(cudaMemPrefetchAsync, const void*, size_t, cudaMemLocation, unsigned, cudaStream_t)
SUCCEEDS(cudaProfilerStart)
SUCCEEDS(cudaProfilerStop)
SUCCEEDS(cudaCtxResetPersistingL2Cache)

// What programs may call besides, and the names under which they call it with a default stream for each thread.
#define MISSING_AS(name, symbol)                       \
  API cudaError_t missing_##symbol() __asm__(#symbol); \
  API cudaError_t missing_##symbol() {                 \
    Recorder::instance().note("missing", #name);       \
    return failed(cudaErrorNotSupported);              \
  }
#define MISSING(name) MISSING_AS(name, name)
#define ALIAS(name, symbol)                   \
  API void alias_##symbol() __asm__(#symbol); \
  API void alias_##symbol() __attribute__((alias(#name)));
#include "stubs.inc"
