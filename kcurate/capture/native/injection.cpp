// Records what a CUDA program launches on a GPU: CUDA_INJECTION64_PATH loads this library into it.
//
// CUPTI calls us before and after each launch of the driver API, which the runtime API uses too. Everything else is
// asked of the driver: sizes of parameters, allocations behind pointers, contents. Libraries are found at run time
// (dlopen), so nothing is linked. Symbols: a module's cubin names its variables and what they hold at first; those
// that hold something else at the launch were written, by whatever call or kernel, and are recorded.
//
// Contents are copied on a stream of our own after the launch's stream is idle; other streams are not waited for: a
// kernel there may wait for the host. During stream capture nothing is copied. Nodes of a graph are recorded when it
// is launched, with contents only if the graph is one kernel. Not covered: bodies of conditional nodes, launches from
// the device, `__managed__` variables, other CUPTI clients (there can be one at a time).

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <elf.h>

#include <atomic>
#include <tuple>
#include <type_traits>

#include "recording.h"

namespace {

using namespace kcurate;

#define DRIVER_FUNCTIONS(X)                                                                               \
  X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice*))                                                        \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                           \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int*, CUfunction_attribute, CUfunction))                   \
  X(cuFuncGetModule, "cuFuncGetModule", (CUmodule*, CUfunction))                                          \
  X(cuFuncGetName, "cuFuncGetName", (const char**, CUfunction))                                           \
  X(cuFuncGetParamInfo, "cuFuncGetParamInfo", (CUfunction, size_t, size_t*, size_t*))                     \
  X(cuKernelGetFunction, "cuKernelGetFunction", (CUfunction*, CUkernel))                                  \
  X(cuKernelGetLibrary, "cuKernelGetLibrary", (CUlibrary*, CUkernel))                                     \
  X(cuKernelGetName, "cuKernelGetName", (const char**, CUkernel))                                         \
  X(cuKernelGetParamInfo, "cuKernelGetParamInfo", (CUkernel, size_t, size_t*, size_t*))                   \
  X(cuLibraryGetGlobal, "cuLibraryGetGlobal", (CUdeviceptr*, size_t*, CUlibrary, const char*))            \
  X(cuModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr*, size_t*, CUmodule, const char*))            \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", (unsigned, CUpointer_attribute*, void**, CUdeviceptr)) \
  X(cuMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                         \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                    \
  X(cuStreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                              \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                    \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, CUstreamCaptureStatus*))                       \
  X(cuStreamQuery, "cuStreamQuery", (CUstream))                                                           \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                               \
  X(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph, CUgraphNode*, size_t*))                                 \
  X(cuGraphNodeGetType, "cuGraphNodeGetType", (CUgraphNode, CUgraphNodeType*))                            \
  X(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", (CUgraphNode, CUgraph*))              \
  X(cuGraphNodeGetEnabled, "cuGraphNodeGetEnabled", (CUgraphExec, CUgraphNode, unsigned*))                \
  X(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2", (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2*))

// A function of a library; calling one that the library lacks gives `missing`.
template <typename Result, Result missing, typename... Args>
struct Function {
  Result (*at)(Args...) = nullptr;
  Result operator()(Args... args) const { return at ? at(args...) : missing; }
};
template <typename Signature>
struct DriverFunction;
template <typename... Args>
struct DriverFunction<void(Args...)> : Function<CUresult, CUDA_ERROR_NOT_FOUND, Args...> {};

struct Driver {
#define X(field, symbol, args) DriverFunction<void args> field;
  DRIVER_FUNCTIONS(X)
#undef X
};
Driver driver;

#if CUDA_VERSION >= 13000 && !defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define X(field, symbol, args) static_assert(std::is_same_v<CUresult(CUDAAPI*) args, decltype(&::field)>, symbol);
DRIVER_FUNCTIONS(X)
#undef X
#endif

template <typename Pointer>
void find_symbol(Pointer& at, void* library, const char* name) {
  void* found = dlsym(library, name);
  memcpy(&at, &found, sizeof at);
}

// The first of these libraries that is loaded, else the program if it has the symbol, else the first that loads.
void* library_with(const char* symbol, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  if (dlsym(RTLD_DEFAULT, symbol)) return dlopen(nullptr, RTLD_NOW);
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW)) return library;
  return nullptr;
}

bool ok(CUresult result) { return result == CUDA_SUCCESS; }

// ---- Symbols ----

struct Global {
  std::string name, initial;  // `initial` shorter than `bytes`: zeros follow
  uint64_t bytes;
};
using Globals = std::vector<Global>;

// The variables and kernels (".text.NAME") of a cubin; nothing of one that is no 64-bit ELF file or is cut.
std::pair<Globals, std::vector<std::string>> read_cubin(const char* data, size_t size) {
  Globals globals;
  std::vector<std::string> kernels;
  auto inside = [size](uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; };
  Elf64_Ehdr header;
  if (!data || size < sizeof header) return {};
  memcpy(&header, data, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (!inside(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr))) return {};
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  memcpy(sections.data(), data + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  auto name_at = [&](size_t table, uint64_t at) -> std::string {
    if (table >= sections.size() || !inside(sections[table].sh_offset, sections[table].sh_size)) return "";
    if (at >= sections[table].sh_size) return "";
    const char* text = data + sections[table].sh_offset + at;
    return {text, strnlen(text, sections[table].sh_size - at)};
  };
  for (const Elf64_Shdr& section : sections) {
    const std::string name = name_at(header.e_shstrndx, section.sh_name);
    if (!name.compare(0, 6, ".text.")) kernels.push_back(name.substr(6));
    if (section.sh_type != SHT_SYMTAB || !inside(section.sh_offset, section.sh_size)) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      memcpy(&symbol, data + section.sh_offset + at, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !symbol.st_size) continue;
      if (symbol.st_shndx >= sections.size()) continue;
      const Elf64_Shdr& home = sections[symbol.st_shndx];
      const std::string where = name_at(header.e_shstrndx, home.sh_name);
      if (where.compare(0, 13, ".nv.constant3") && where.compare(0, 10, ".nv.global")) continue;
      Global global{name_at(section.sh_link, symbol.st_name), "", symbol.st_size};
      if (home.sh_type != SHT_NOBITS && inside(home.sh_offset, home.sh_size) && symbol.st_value <= home.sh_size &&
          symbol.st_size <= home.sh_size - symbol.st_value)
        global.initial.assign(data + home.sh_offset + symbol.st_value, symbol.st_size);
      globals.push_back(std::move(global));
    }
  }
  return {globals, kernels};
}

// ---- Kernels, and what is known of them ----

struct Kernel {
  std::string name;
  CUfunction function = nullptr;  // of a CUkernel: that of the context in which it was first launched
  CUlibrary library = nullptr;    // of a CUkernel
  bool wanted = true, args_known = true;
  std::vector<std::pair<size_t, size_t>> params;  // offset and size in bytes
  Dim3 cluster;                                   // that the kernel itself demands
};

// One kernel node of a graph: `launch` has no arguments yet, `values` are their bytes.
struct Node {
  CUgraphNode node;
  std::shared_ptr<const Kernel> kernel;
  Launch launch;
  std::vector<std::string> values;
};
struct Graph {
  std::vector<Node> nodes;
  bool alone = true;  // one kernel and nothing else
};

struct State {
  std::mutex mutex;
  std::map<std::pair<void*, std::string>, std::shared_ptr<const Kernel>> kernels;
  std::map<std::string, std::shared_ptr<const Globals>> globals;  // by kernel
  std::map<CUgraphExec, std::shared_ptr<const Graph>> graphs;
  // Held while something is looked at: a capture that began meanwhile would be invalidated.
  std::mutex looking;
  int captures = 0;
};
State& state() {
  static State* made = new State;
  return *made;
}

// A handle of a launch is a CUfunction or, of programs that use the runtime API, a CUkernel. The driver refuses to
// name the one as the other; a parameter index beyond the last is refused too.
std::shared_ptr<const Kernel> kernel_of(CUfunction handle, const char* symbol) {
  const char* asked = symbol;
  if (!asked && !ok(driver.cuFuncGetName(&asked, handle)))
    driver.cuKernelGetName(&asked, reinterpret_cast<CUkernel>(handle));
  const std::pair<void*, std::string> key{handle, asked ? asked : ""};
  {
    std::lock_guard<std::mutex> guard(state().mutex);
    if (auto at = state().kernels.find(key); at != state().kernels.end()) return at->second;
  }
  auto made = std::make_shared<Kernel>();
  made->name = key.second;
  made->wanted = Recorder::instance().wanted(made->name);
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  size_t offset = 0, size = 0;
  while (ok(driver.cuFuncGetParamInfo(handle, made->params.size(), &offset, &size)))
    made->params.push_back({offset, size});
  const char* name = nullptr;
  bool is_function = !made->params.empty() || ok(driver.cuFuncGetName(&name, handle)), is_kernel = false;
  if (made->params.empty()) {
    while (ok(driver.cuKernelGetParamInfo(kernel, made->params.size(), &offset, &size)))
      made->params.push_back({offset, size});
    is_kernel = !made->params.empty() || (!is_function && ok(driver.cuKernelGetName(&name, kernel)));
  }
  made->args_known = is_function || is_kernel;
  if (!is_kernel)
    made->function = handle;
  else if (driver.cuKernelGetFunction(&made->function, kernel), !ok(driver.cuKernelGetLibrary(&made->library, kernel)))
    made->library = nullptr;
  if (made->function) {
    int width = 0, height = 0, depth = 0;
    if (ok(driver.cuFuncGetAttribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, made->function)) && width > 0 &&
        ok(driver.cuFuncGetAttribute(&height, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, made->function)) &&
        ok(driver.cuFuncGetAttribute(&depth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, made->function)))
      made->cluster = {unsigned(width), unsigned(std::max(height, 1)), unsigned(std::max(depth, 1))};
  }
  std::lock_guard<std::mutex> guard(state().mutex);
  return state().kernels.emplace(key, made).first->second;
}

bool find_allocation(uint64_t address, Allocation& found) {
  if (address < 1 << 16 || address >> 57) return false;
  CUdeviceptr start = 0;
  size_t size = 0;
  unsigned type = 0, managed = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                 CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* answers[] = {&start, &size, &type, &managed};
  if (!ok(driver.cuPointerGetAttributes(4, asked, answers, address))) return false;
  if (!start || address < start || address - start >= size) return false;
  found = {start, size, managed ? "managed" : type == CU_MEMORYTYPE_HOST ? "host" : "device"};
  return true;
}

// The bytes of each argument, given one by one or as one buffer.
std::vector<std::string> values_of(const Kernel& kernel, void** params, void** extra) {
  const char* buffer = nullptr;
  size_t length = 0;
  for (void** at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const char*>(at[1]);
    if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) length = *static_cast<size_t*>(at[1]);
  }
  std::vector<std::string> values;
  for (const auto& [offset, size] : kernel.params) {
    const void* from = params ? params[values.size()] : nullptr;
    if (!params && buffer && offset <= length && size <= length - offset) from = buffer + offset;
    values.push_back(from ? std::string(static_cast<const char*>(from), size) : std::string(size, '\0'));
  }
  return values;
}

void complete(Launch& launch, const Kernel& kernel, const std::vector<std::string>& values) {
  launch.kernel = kernel.name;
  launch.args_known = kernel.args_known;
  if (!launch.cluster.x) launch.cluster = kernel.cluster;
  for (const std::string& value : values) launch.add_argument(value.data(), value.size(), find_allocation);
}

// All that tells one launch from another.
std::string bytes_of(const std::string& kernel, const Launch& launch, const std::vector<std::string>& values) {
  std::string made = kernel;
  const Dim3 rest{launch.shared, launch.cooperative, 0};
  for (const Dim3& d : {launch.grid, launch.block, launch.cluster, rest})
    made.append(reinterpret_cast<const char*>(&d), sizeof d);
  for (const std::string& value : values) made += value;
  return made;
}

void read_attributes(Launch& launch, const CUlaunchAttribute* attributes, unsigned count) {
  for (unsigned i = 0; attributes && i < count; ++i) {
    const CUlaunchAttributeValue& value = attributes[i].value;
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = value.cooperative != 0;
  }
}

// ---- Contents ----

// Copies from device memory on a stream that waits for no other.
class Copier {
 public:
  Copier() { usable_ = ok(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)); }
  ~Copier() {
    if (usable_) driver.cuStreamDestroy(stream_);
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  bool operator()(uint64_t from, void* to, size_t bytes) const {
    if (!usable_) return false;
    if (!ok(driver.cuMemcpyDtoHAsync(to, from, bytes, stream_)) &&
        !ok(driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream_)))
      return false;
    return ok(driver.cuStreamSynchronize(stream_));
  }

 private:
  CUstream stream_ = nullptr;
  bool usable_ = false;
};

constexpr int kWaitSeconds = 20;

// Wait until a stream is idle. Not for ever: its kernel may wait for the host, which waits here.
bool idle(CUstream stream) {
  timespec pause{0, 20000};
  for (int64_t waited = 0; waited < kWaitSeconds * 1000000000ll; waited += pause.tv_nsec) {
    const CUresult result = driver.cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) return ok(result);
    nanosleep(&pause, nullptr);
    if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
  }
  Recorder::instance().note("limit", "a stream was not idle after " + std::to_string(kWaitSeconds) + " seconds");
  return false;
}

// As far as contents are written; what cannot be copied counts as unchanged.
bool holds_initial(const Global& global, uint64_t address, const Copier& copy) {
  std::string chunk;
  const uint64_t size = std::min(global.bytes, Recorder::instance().buffer_bytes());
  for (uint64_t done = 0; done < size; done += chunk.size()) {
    chunk.resize(std::min<uint64_t>(size - done, 16 << 20));
    if (!copy(address + done, &chunk[0], chunk.size())) return true;
    std::string expected = done < global.initial.size() ? global.initial.substr(done, chunk.size()) : "";
    expected.resize(chunk.size());
    if (chunk != expected) return false;
  }
  return true;
}

std::vector<Symbol> written_symbols(const Kernel& kernel, const Copier& copy) {
  std::shared_ptr<const Globals> globals;
  {
    std::lock_guard<std::mutex> guard(state().mutex);
    globals = state().globals[kernel.name];
  }
  CUmodule module = nullptr;
  std::vector<Symbol> written;
  if (!globals || globals->empty()) return written;
  const bool in_module = kernel.function && ok(driver.cuFuncGetModule(&module, kernel.function));
  for (const Global& global : *globals) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const char* name = global.name.c_str();
    const bool found = (kernel.library && ok(driver.cuLibraryGetGlobal(&address, &bytes, kernel.library, name))) ||
                       (in_module && ok(driver.cuModuleGetGlobal(&address, &bytes, module, name)));
    if (!found || bytes != global.bytes) continue;  // optimised away, or of another module with such a kernel
    if (!holds_initial(global, address, copy)) written.push_back({demangled(global.name), "", address, bytes});
  }
  return written;
}

// ---- Launches ----

// Between the two callbacks of one launch, or of one launch of a graph.
struct Pending {
  std::vector<std::tuple<std::shared_ptr<const Kernel>, Launch, Form>> launches;
  CUstream stream = nullptr;
  bool look = false;  // of the one launch
  std::string bytes;  // all that the one launch is made of
};

void describe_device() {
  static std::atomic<bool> known{false};
  CUdevice device = 0;
  char name[256] = "";
  if (known || !ok(driver.cuCtxGetDevice(&device)) || !ok(driver.cuDeviceGetName(name, sizeof name, device))) return;
  Recorder::instance().describe("cupti", name);
  known = true;
}

void before(Pending& pending, bool alone) {
  Recorder& recorder = Recorder::instance();
  describe_device();
  std::lock_guard<std::mutex> guard(state().looking);
  const bool may_look = alone && !state().captures;
  for (auto& [kernel, launch, form] : pending.launches) {
    if (!kernel->wanted) continue;
    form = recorder.begin(launch, may_look);
    if (form.is_new && !may_look)
      recorder.note("graph", alone ? "buffers were not looked at while a stream was captured"
                                   : "buffers of kernels in a graph of several nodes were not looked at");
    if (!form.look || !idle(pending.stream)) continue;
    const Copier copy;
    launch.symbols = written_symbols(*kernel, copy);
    recorder.look_before(launch, std::cref(copy));
    pending.look = true;
  }
}

void look_after(Launch& launch, CUstream stream) {
  std::lock_guard<std::mutex> guard(state().looking);
  if (state().captures) return Recorder::instance().note("graph", "a capture began while a kernel was looked at");
  if (!idle(stream)) return;
  const Copier copy;
  Recorder::instance().look_after(launch, std::cref(copy));
}

void after(Pending& pending, CUresult result) {
  Recorder& recorder = Recorder::instance();
  for (auto& [kernel, launch, form] : pending.launches) {
    if (!ok(result)) {
      if (kernel->wanted) recorder.failed(form, launch);
    } else if (!kernel->wanted) {
      recorder.launched_other(kernel->name);
    } else {
      if (pending.look) look_after(launch, pending.stream);
      recorder.launched(form, launch, pending.bytes);
    }
  }
}

// The parameters of a launch of one of the kinds that there are.
struct Call {
  CUfunction function;
  Launch launch;
  void **params, **extra = nullptr;
  CUstream stream;
};

template <typename Params>
Call call_of(const Params& p) {
  Call call{};
  call.function = p.f;
  call.launch.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  call.launch.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  call.launch.shared = p.sharedMemBytes;
  call.params = p.kernelParams;
  call.stream = p.hStream;
  return call;
}

Call read_call(CUpti_CallbackId id, const void* params) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
      const auto& p = *static_cast<const cuLaunchKernelEx_params*>(params);
      const CUlaunchConfig& c = *p.config;
      Call call{p.f, {}, p.kernelParams, p.extra, c.hStream};
      call.launch.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
      call.launch.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
      call.launch.shared = c.sharedMemBytes;
      read_attributes(call.launch, c.attrs, c.numAttrs);
      return call;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
      Call call = call_of(*static_cast<const cuLaunchCooperativeKernel_params*>(params));
      call.launch.cooperative = true;
      return call;
    }
    default: {
      Call call = call_of(*static_cast<const cuLaunchKernel_params*>(params));
      call.extra = static_cast<const cuLaunchKernel_params*>(params)->extra;
      return call;
    }
  }
}

// ---- Graphs ----

template <typename Params>
void set_node(Node& node, const Params& p, CUfunction function) {
  node.kernel = kernel_of(function, nullptr);
  node.launch.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  node.launch.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  node.launch.shared = p.sharedMemBytes;
  node.values = values_of(*node.kernel, p.kernelParams, p.extra);
}

CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS_v2& p) {
  return p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
}

void read_graph(CUgraph graph, Graph& made) {
  size_t count = 0;
  if (!ok(driver.cuGraphGetNodes(graph, nullptr, &count))) return;
  std::vector<CUgraphNode> nodes(count);
  if (!count || !ok(driver.cuGraphGetNodes(graph, nodes.data(), &count))) return;
  nodes.resize(count);
  made.alone &= count == 1;
  for (CUgraphNode one : nodes) {
    CUgraphNodeType type;
    CUgraph child;
    CUDA_KERNEL_NODE_PARAMS_v2 params{};
    if (!ok(driver.cuGraphNodeGetType(one, &type))) continue;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && ok(driver.cuGraphChildGraphNodeGetGraph(one, &child)))
      read_graph(child, made);
    if (type != CU_GRAPH_NODE_TYPE_KERNEL || !ok(driver.cuGraphKernelNodeGetParams(one, &params))) continue;
    Node node{one, nullptr, {}, {}};
    set_node(node, params, function_of(params));
    made.nodes.push_back(std::move(node));
  }
}

void remember_graph(CUgraphExec exec, CUgraph graph) {
  auto made = std::make_shared<Graph>();
  read_graph(graph, *made);
  std::lock_guard<std::mutex> guard(state().mutex);
  state().graphs[exec] = made;
}

std::shared_ptr<const Graph> graph_of(CUgraphExec exec) {
  std::lock_guard<std::mutex> guard(state().mutex);
  auto at = state().graphs.find(exec);
  return at == state().graphs.end() ? nullptr : at->second;
}

template <typename Params>
void change_node(CUgraphExec exec, CUgraphNode node, const Params& params, CUfunction function) {
  auto known = graph_of(exec);
  if (!known) return;
  auto made = std::make_shared<Graph>(*known);
  for (Node& one : made->nodes)
    if (one.node == node) set_node(one, params, function);
  std::lock_guard<std::mutex> guard(state().mutex);
  state().graphs[exec] = made;
}

// ---- Callbacks ----

// The stream that 0 means in the variants for `--default-stream per-thread`.
CUstream named(CUstream stream, bool per_thread) { return stream || !per_thread ? stream : CU_STREAM_PER_THREAD; }

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return !ok(driver.cuStreamIsCapturing(stream, &status)) || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

std::unique_ptr<Pending> launch_entered(const CUpti_CallbackData& data, CUpti_CallbackId id, bool per_thread) {
  Call call = read_call(id, data.functionParams);
  call.stream = named(call.stream, per_thread);
  if (is_capturing(call.stream)) return nullptr;  // recorded when its graph is launched
  auto kernel = kernel_of(call.function, data.symbolName);
  auto pending = std::make_unique<Pending>();
  pending->stream = call.stream;
  if (kernel->wanted) {
    const std::vector<std::string> values = values_of(*kernel, call.params, call.extra);
    pending->bytes = bytes_of(kernel->name, call.launch, values);
    if (const auto known = Recorder::instance().known(kernel->name, pending->bytes)) {
      call.launch.kernel = kernel->name;
      pending->launches.emplace_back(kernel, std::move(call.launch), *known);
      return pending;
    }
    complete(call.launch, *kernel, values);
  }
  pending->launches.emplace_back(kernel, std::move(call.launch), Form{});
  before(*pending, true);
  return pending;
}

std::unique_ptr<Pending> graph_entered(const CUpti_CallbackData& data, bool per_thread) {
  const auto& p = *static_cast<const cuGraphLaunch_params*>(data.functionParams);
  auto pending = std::make_unique<Pending>();
  pending->stream = named(p.hStream, per_thread);
  auto graph = graph_of(p.hGraph);
  if (!graph || is_capturing(pending->stream)) return nullptr;
  for (const Node& node : graph->nodes) {
    unsigned enabled = 1;
    if (ok(driver.cuGraphNodeGetEnabled(p.hGraph, node.node, &enabled)) && !enabled) continue;
    Launch launch = node.launch;
    if (node.kernel->wanted) complete(launch, *node.kernel, node.values);
    pending->launches.emplace_back(node.kernel, std::move(launch), Form{});
  }
  before(*pending, graph->alone);
  return pending;
}

void graph_changed(CUpti_CallbackId id, const void* params) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2: {
      const auto& p = *static_cast<const cuGraphExecUpdate_v2_params*>(params);
      return remember_graph(p.hGraphExec, p.hGraph);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams: {
      const auto& p = *static_cast<const cuGraphExecKernelNodeSetParams_params*>(params);
      return change_node(p.hGraphExec, p.hNode, *p.nodeParams, p.nodeParams->func);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2: {
      const auto& p = *static_cast<const cuGraphExecKernelNodeSetParams_v2_params*>(params);
      return change_node(p.hGraphExec, p.hNode, *p.nodeParams, function_of(*p.nodeParams));
    }
#if CUDA_VERSION >= 12020
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams: {
      const auto& p = *static_cast<const cuGraphExecNodeSetParams_params*>(params);
      const auto& kernel = p.nodeParams->kernel;
      if (p.nodeParams->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
      return change_node(p.hGraphExec, p.hNode, kernel,
                         kernel.func ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern));
    }
#endif
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy: {
      std::lock_guard<std::mutex> guard(state().mutex);
      state().graphs.erase(static_cast<const cuGraphExecDestroy_params*>(params)->hGraphExec);
      return;
    }
    default: {  // of each way to instantiate a graph, the parameters begin like this
      const auto& p = *static_cast<const cuGraphInstantiateWithFlags_params*>(params);
      return remember_graph(*p.phGraphExec, p.hGraph);
    }
  }
}

enum class Kind { launch, graph_launch, graph_change, capture_begin, capture_end, load };
struct Watched {
  Kind kind;
  bool per_thread;
};

const std::map<CUpti_CallbackId, Watched>& watched() {
#define ID(name) CUPTI_DRIVER_TRACE_CBID_##name
  static const auto* made = new std::map<CUpti_CallbackId, Watched>{
      {ID(cuLaunchKernel), {Kind::launch, false}},
      {ID(cuLaunchKernel_ptsz), {Kind::launch, true}},
      {ID(cuLaunchKernelEx), {Kind::launch, false}},
      {ID(cuLaunchKernelEx_ptsz), {Kind::launch, true}},
      {ID(cuLaunchCooperativeKernel), {Kind::launch, false}},
      {ID(cuLaunchCooperativeKernel_ptsz), {Kind::launch, true}},
      {ID(cuGraphLaunch), {Kind::graph_launch, false}},
      {ID(cuGraphLaunch_ptsz), {Kind::graph_launch, true}},
      {ID(cuGraphInstantiate), {Kind::graph_change, false}},
      {ID(cuGraphInstantiate_v2), {Kind::graph_change, false}},
      {ID(cuGraphInstantiateWithFlags), {Kind::graph_change, false}},
      {ID(cuGraphInstantiateWithParams), {Kind::graph_change, false}},
      {ID(cuGraphInstantiateWithParams_ptsz), {Kind::graph_change, false}},
      {ID(cuGraphExecDestroy), {Kind::graph_change, false}},
#if CUDA_VERSION >= 12020
      {ID(cuGraphExecNodeSetParams), {Kind::graph_change, false}},
#endif
      {ID(cuGraphExecUpdate), {Kind::graph_change, false}},
      {ID(cuGraphExecUpdate_v2), {Kind::graph_change, false}},
      {ID(cuGraphExecKernelNodeSetParams), {Kind::graph_change, false}},
      {ID(cuGraphExecKernelNodeSetParams_v2), {Kind::graph_change, false}},
      {ID(cuStreamBeginCapture), {Kind::capture_begin, false}},
      {ID(cuStreamBeginCapture_ptsz), {Kind::capture_begin, false}},
      {ID(cuStreamBeginCapture_v2), {Kind::capture_begin, false}},
      {ID(cuStreamBeginCapture_v2_ptsz), {Kind::capture_begin, false}},
#if CUDA_VERSION >= 12030
      {ID(cuStreamBeginCaptureToGraph), {Kind::capture_begin, false}},
      {ID(cuStreamBeginCaptureToGraph_ptsz), {Kind::capture_begin, false}},
#endif
      {ID(cuStreamEndCapture), {Kind::capture_end, false}},
      {ID(cuStreamEndCapture_ptsz), {Kind::capture_end, false}},
      {ID(cuModuleLoad), {Kind::load, false}},
      {ID(cuModuleLoadData), {Kind::load, false}},
      {ID(cuModuleLoadDataEx), {Kind::load, false}},
      {ID(cuModuleLoadFatBinary), {Kind::load, false}},
      {ID(cuLibraryLoadData), {Kind::load, false}},
      {ID(cuLibraryLoadFromFile), {Kind::load, false}},
  };
#undef ID
  return *made;
}

void count_capture(int by) {
  std::lock_guard<std::mutex> guard(state().looking);
  state().captures = std::max(0, state().captures + by);
}

void driver_called(CUpti_CallbackId id, const CUpti_CallbackData& data) {
  const auto at = watched().find(id);
  if (at == watched().end()) return;
  const auto [kind, per_thread] = at->second;
  const bool entered = data.callbackSite == CUPTI_API_ENTER;
  const CUresult result =
      entered || !data.functionReturnValue ? CUDA_SUCCESS : *static_cast<CUresult*>(data.functionReturnValue);
  if (kind == Kind::launch || kind == Kind::graph_launch) {
    if (entered) {
      *data.correlationData = 0;
      auto pending = kind == Kind::launch ? launch_entered(data, id, per_thread) : graph_entered(data, per_thread);
      *data.correlationData = reinterpret_cast<uint64_t>(pending.release());
    } else if (std::unique_ptr<Pending> pending{reinterpret_cast<Pending*>(*data.correlationData)}) {
      *data.correlationData = 0;
      after(*pending, result);
    }
  } else if (kind == Kind::capture_begin && entered) {
    count_capture(1);
  } else if (!entered) {
    if (kind == Kind::graph_change && ok(result)) graph_changed(id, data.functionParams);
    if ((kind == Kind::capture_begin && !ok(result)) || kind == Kind::capture_end) count_capture(-1);
    if (kind == Kind::load && result == CUDA_ERROR_NO_BINARY_FOR_GPU)
      Recorder::instance().note("no_kernel", "a module was built for another architecture");
  }
}

void resource_changed(CUpti_CallbackId id, const CUpti_ResourceData& data) {
  if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED && data.resourceDescriptor) {
    const auto& module = *static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor);
    auto [globals, kernels] = read_cubin(module.pCubin, module.cubinSize);
    auto shared = std::make_shared<const Globals>(std::move(globals));
    std::lock_guard<std::mutex> guard(state().mutex);
    for (const std::string& kernel : kernels) state().globals[kernel] = shared;
  } else if (id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING) {
    std::lock_guard<std::mutex> guard(state().mutex);
    state().kernels.clear();  // the next module may use a handle again
  }
}

// CUPTI calls this around the calls of the program, and around ours, which are not recorded.
void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* given) {
  static thread_local bool inside = false;
  // What our calls load is wanted too.
  if (!given || (inside && domain != CUPTI_CB_DOMAIN_RESOURCE)) return;
  const bool nested = std::exchange(inside, true);
  const int error = errno;
  try {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
      driver_called(id, *static_cast<const CUpti_CallbackData*>(given));
    } else if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
      resource_changed(id, *static_cast<const CUpti_ResourceData*>(given));
    } else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
      const auto& data = *static_cast<const CUpti_CallbackData*>(given);
      if (data.callbackSite == CUPTI_API_EXIT && data.functionReturnValue &&
          *static_cast<int*>(data.functionReturnValue) == CUDA_ERROR_NO_BINARY_FOR_GPU)
        Recorder::instance().note("no_kernel", std::string(data.symbolName ? data.symbolName : "a kernel") +
                                                   " was built for another architecture");
    }
  } catch (...) {  // such as no memory: the program goes on, unrecorded
  }
  errno = error;
  inside = nested;
}

#ifndef KCURATE_LIBCUPTI
#define KCURATE_LIBCUPTI "libcupti.so"
#endif

void subscribe() {
  Recorder& recorder = Recorder::instance();
  recorder.describe("cupti", "");
  void* cuda = library_with("cuStreamQuery", {"libcuda.so.1"});
#define X(field, symbol, args) find_symbol(driver.field.at, cuda, symbol);
  if (cuda) { DRIVER_FUNCTIONS(X) }
#undef X
  void* cupti = library_with("cuptiSubscribe", {KCURATE_LIBCUPTI, "libcupti.so.13", "libcupti.so.12", "libcupti.so"});
  if (!cuda || !cupti) return recorder.note("cupti", cuda ? "libcupti was not found" : "libcuda.so.1 was not found");
  decltype(&cuptiSubscribe) open = nullptr;
  decltype(&cuptiEnableCallback) enable = nullptr;
  find_symbol(open, cupti, "cuptiSubscribe");
  find_symbol(enable, cupti, "cuptiEnableCallback");
  CUpti_SubscriberHandle subscriber = nullptr;
  const int result = open && enable ? open(&subscriber, called, nullptr) : CUPTI_ERROR_UNKNOWN;
  if (result != CUPTI_SUCCESS) return recorder.note("cupti", "cuptiSubscribe returned " + std::to_string(result));
  for (const auto& one : watched()) enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, one.first);
  for (int id : {CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING})
    enable(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
  for (int id : {
           CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
           CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
           CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
           CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
#if CUDA_VERSION >= 13000
           CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
#endif
       })
    enable(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, id);
}

}  // namespace

// The driver calls this once, within cuInit.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static const bool done = [] {
    try {
      if (Recorder::instance().enabled()) subscribe();
    } catch (...) {
    }
    return true;
  }();
  return done;
}
