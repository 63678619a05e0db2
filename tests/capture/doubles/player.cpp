// A program with a CUPTI and a driver of its own, in host memory. It loads the recorder as the driver would, and plays
// one scenario: launches go through the subscribed callback, and run on the CPU. Calls that a real driver would not
// allow during stream capture end it with code 99.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define REPLACED extern "C" __attribute__((visibility("default")))

struct Block {
  size_t size;
  unsigned type, managed;
};
// What a CUfunction or a CUkernel points to here.
struct Code {
  const char* name;
  std::vector<size_t> sizes;
  std::function<void(void**)> run;
  bool is_kernel = false, secret = false;
  int cluster = 0;
  Code* function = nullptr;  // of a kernel
};
struct Node {
  CUDA_KERNEL_NODE_PARAMS params;
  std::vector<std::string> values;
  std::vector<void*> pointers;
};

static std::map<uintptr_t, Block> blocks;
static std::map<std::string, std::pair<void*, size_t>> variables;
static CUpti_CallbackFunc callback;
static std::set<std::pair<int, unsigned>> enabled;
static int subscriptions, capturing, busy, copies, asked_about;
static bool refuse_launch, refuse_copy, refuse_subscription;
static std::vector<Node*>* graph;

static Code* code(CUfunction f) { return reinterpret_cast<Code*>(f); }
static CUfunction handle(Code& c) { return reinterpret_cast<CUfunction>(&c); }
static void allowed() {
  if (capturing) _exit(99);
}

template <typename Params, typename Body>
static CUresult traced(CUpti_CallbackId id, const Params& params, const char* symbol, Body body) {
  uint64_t correlation = 0;
  CUresult result = CUDA_SUCCESS;
  CUpti_CallbackData data{};
  data.functionParams = &params;
  data.functionReturnValue = &result;
  data.symbolName = symbol;
  data.correlationData = &correlation;
  const bool watched = callback && enabled.count({CUPTI_CB_DOMAIN_DRIVER_API, id});
  data.callbackSite = CUPTI_API_ENTER;
  if (watched) callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  result = body();
  data.callbackSite = CUPTI_API_EXIT;
  if (watched) callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  return result;
}

// ---- CUPTI ----

REPLACED CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc function, void*) {
  if (refuse_subscription) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  ++subscriptions;
  callback = function;
  return CUPTI_SUCCESS;
}
REPLACED CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                         CUpti_CallbackId id) {
  if (on) enabled.insert({domain, id});
  return CUPTI_SUCCESS;
}

// ---- The driver ----

REPLACED CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
REPLACED CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  snprintf(name, length, "Double \"1\"");
  return CUDA_SUCCESS;
}
REPLACED CUresult cuFuncGetParamInfo(CUfunction f, size_t at, size_t* offset, size_t* size) {
  const Code& c = *code(f);
  if (c.is_kernel || c.secret) return CUDA_ERROR_INVALID_HANDLE;
  if (at >= c.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  for (size_t i = 0; i <= at; ++i) {
    const size_t step = c.sizes[i] < 8 ? c.sizes[i] : 8;
    *offset = (*offset + step - 1) / step * step;
    if (i < at) *offset += c.sizes[i];
  }
  *size = c.sizes[at];
  return CUDA_SUCCESS;
}
REPLACED CUresult cuKernelGetParamInfo(CUkernel k, size_t at, size_t* offset, size_t* size) {
  const Code& c = *reinterpret_cast<Code*>(k);
  if (!c.is_kernel || !c.function) return CUDA_ERROR_INVALID_HANDLE;
  return cuFuncGetParamInfo(handle(*c.function), at, offset, size);
}
REPLACED CUresult cuFuncGetName(const char** name, CUfunction f) {
  if (code(f)->is_kernel || code(f)->secret) return CUDA_ERROR_INVALID_HANDLE;
  return *name = code(f)->name, CUDA_SUCCESS;
}
REPLACED CUresult cuKernelGetName(const char** name, CUkernel k) {
  const Code& c = *reinterpret_cast<Code*>(k);
  return c.is_kernel ? (*name = c.name, CUDA_SUCCESS) : CUDA_ERROR_INVALID_HANDLE;
}
REPLACED CUresult cuKernelGetFunction(CUfunction* f, CUkernel k) {
  return *f = handle(*reinterpret_cast<Code*>(k)->function), CUDA_SUCCESS;
}
REPLACED CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel k) {
  return *library = reinterpret_cast<CUlibrary>(k), CUDA_SUCCESS;
}
REPLACED CUresult cuFuncGetModule(CUmodule* module, CUfunction f) {
  return *module = nullptr, code(f)->is_kernel ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
REPLACED CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction f) {
  return *value = which == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ? code(f)->cluster : 0, CUDA_SUCCESS;
}
REPLACED CUresult cuModuleGetGlobal(CUdeviceptr* at, size_t* bytes, CUmodule, const char* name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return CUDA_ERROR_NOT_FOUND;
  *at = reinterpret_cast<CUdeviceptr>(found->second.first);
  *bytes = found->second.second;
  return CUDA_SUCCESS;
}
REPLACED CUresult cuLibraryGetGlobal(CUdeviceptr* at, size_t* bytes, CUlibrary, const char* name) {
  return cuModuleGetGlobal(at, bytes, nullptr, name);
}
REPLACED CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* asked, void** answers, CUdeviceptr p) {
  auto at = blocks.upper_bound(p);
  const bool known = at != blocks.begin() && p - std::prev(at)->first < std::prev(at)->second.size;
  ++asked_about;
  const Block block = known ? std::prev(at)->second : Block{0, 0, 0};
  for (unsigned i = 0; i < count; ++i) {
    if (asked[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
      *static_cast<CUdeviceptr*>(answers[i]) = known ? std::prev(at)->first : 0;
    if (asked[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *static_cast<size_t*>(answers[i]) = block.size;
    if (asked[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned*>(answers[i]) = block.type;
    if (asked[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) *static_cast<unsigned*>(answers[i]) = block.managed;
  }
  return CUDA_SUCCESS;
}
REPLACED CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  allowed();
  ++copies;
  if (refuse_copy) return CUDA_ERROR_ILLEGAL_ADDRESS;
  memcpy(to, reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
REPLACED CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream) { return CUDA_ERROR_ILLEGAL_ADDRESS; }
REPLACED CUresult cuStreamCreate(CUstream* stream, unsigned) {
  allowed();
  return *stream = reinterpret_cast<CUstream>(77), CUDA_SUCCESS;
}
REPLACED CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
REPLACED CUresult cuStreamSynchronize(CUstream) { return allowed(), CUDA_SUCCESS; }
REPLACED CUresult cuStreamQuery(CUstream) {
  allowed();
  return busy && busy-- ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
// Stream number `capturing` is captured.
REPLACED CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const bool yes = capturing && stream == reinterpret_cast<CUstream>(capturing);
  return *status = yes ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}

static CUresult perform(CUfunction f, void** params, void** extra) {
  if (refuse_launch) return CUDA_ERROR_INVALID_VALUE;
  Code& c = code(f)->function ? *code(f)->function : *code(f);
  std::vector<void*> inside;
  for (size_t i = 0, offset, size; extra && cuFuncGetParamInfo(handle(c), i, &offset, &size) == CUDA_SUCCESS; ++i)
    inside.push_back(static_cast<char*>(extra[1]) + offset);
  if (c.run) c.run(extra ? inside.data() : params);
  return CUDA_SUCCESS;
}

static CUresult launch(Code& c, unsigned grid, unsigned block, void** params, int stream = 0, void** extra = nullptr) {
  cuLaunchKernel_params p{handle(c), grid, 1, 1, block, 1, 1, 0, reinterpret_cast<CUstream>(stream), params, extra};
  return traced(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, p, c.name, [&] {
    if (capturing != stream || !capturing) return perform(p.f, params, extra);
    auto* node = new Node{{p.f, grid, 1, 1, block, 1, 1, 0, nullptr, nullptr, nullptr, nullptr}, {}, {}};
    for (size_t i = 0; i < c.function->sizes.size(); ++i)
      node->values.emplace_back(static_cast<char*>(params[i]), c.function->sizes[i]);
    for (std::string& value : node->values) node->pointers.push_back(&value[0]);
    node->params.kernelParams = node->pointers.data();
    graph->push_back(node);
    return CUDA_SUCCESS;
  });
}

static CUresult begin_capture(int stream) {
  cuStreamBeginCapture_v2_params p{reinterpret_cast<CUstream>(stream), CU_STREAM_CAPTURE_MODE_GLOBAL};
  return traced(CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, p, nullptr, [&] {
    graph = new std::vector<Node*>;
    return capturing = stream, CUDA_SUCCESS;
  });
}
static CUgraph end_capture() {
  CUgraph made = reinterpret_cast<CUgraph>(graph);
  cuStreamEndCapture_params p{reinterpret_cast<CUstream>(capturing), &made};
  traced(CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, p, nullptr, [&] { return capturing = 0, CUDA_SUCCESS; });
  return made;
}
static CUgraphExec instantiate(CUgraph from) {
  CUgraphExec exec = nullptr;
  cuGraphInstantiateWithFlags_params p{&exec, from, 0};
  traced(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, p, nullptr,
         [&] { return exec = reinterpret_cast<CUgraphExec>(from), CUDA_SUCCESS; });
  return exec;
}
static CUresult launch_graph(CUgraphExec exec) {
  cuGraphLaunch_params p{exec, nullptr};
  return traced(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, p, nullptr, [&] {
    for (Node* node : *reinterpret_cast<std::vector<Node*>*>(exec))
      perform(node->params.func, node->params.kernelParams, nullptr);
    return CUDA_SUCCESS;
  });
}
REPLACED CUresult cuGraphGetNodes(CUgraph from, CUgraphNode* nodes, size_t* count) {
  const auto& all = *reinterpret_cast<std::vector<Node*>*>(from);
  for (size_t i = 0; nodes && i < all.size(); ++i) nodes[i] = reinterpret_cast<CUgraphNode>(all[i]);
  return *count = all.size(), CUDA_SUCCESS;
}
REPLACED CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType* type) {
  return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
}
static CUgraphNode disabled;
REPLACED CUresult cuGraphNodeGetEnabled(CUgraphExec, CUgraphNode node, unsigned* on) {
  return *on = node != disabled, CUDA_SUCCESS;
}
REPLACED CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode, CUgraph*) { return CUDA_ERROR_INVALID_VALUE; }
REPLACED CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return *params = reinterpret_cast<Node*>(node)->params, CUDA_SUCCESS;
}

// ---- Kernels and scenarios ----

template <typename T>
static T* allocate(size_t count, unsigned type = CU_MEMORYTYPE_DEVICE, unsigned managed = 0) {
  T* made = new T[count]();
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<T>(i);
  blocks[reinterpret_cast<uintptr_t>(made)] = {count * sizeof(T), type, managed};
  return made;
}

// scale(float* out, const float* in, float by, int n), of the runtime API.
static void run_scale(void** p) {
  float *out = *static_cast<float**>(p[0]), *in = *static_cast<float**>(p[1]);
  for (int i = 0; i < *static_cast<int*>(p[3]); ++i) out[i] = *static_cast<float*>(p[2]) * in[i];
}
static Code scale_function{"_Z5scalePfPKffi", {8, 8, 4, 4}, run_scale};
static Code scale{"_Z5scalePfPKffi", {}, {}, true, false, 0, &scale_function};
static Code other_function{"_ZN2ns5otherIiLi2EEEvPT_", {8}, [](void**) {}};
static Code other{"_ZN2ns5otherIiLi2EEEvPT_", {}, {}, true, false, 0, &other_function};

static CUresult launch_scale(float* out, float* in, float by, int n, int stream = 0, unsigned grid = 2) {
  void* params[] = {&out, &in, &by, &n};
  return launch(scale, grid, 64, params, stream);
}

static void load_module(const char* path) {
  std::ifstream file(path, std::ios::binary);
  static std::string image((std::istreambuf_iterator<char>(file)), {});
  CUpti_ModuleResourceData module{1, image.size(), image.data()};
  CUpti_ResourceData data{};
  data.resourceDescriptor = &module;
  if (callback) callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &data);
}

struct Struct {
  float* first;
  int n, m;
  float* second;
  float* none;
};

static const std::map<std::string, std::function<int(int, char**)>> scenarios{
    {"forms",
     [](int, char**) {
       float *out = allocate<float>(100), *in = allocate<float>(100);
       busy = 3;
       for (float by : {2.f, 2.f, 3.f}) launch_scale(out, in, by, 100);
       launch_scale(out + 50, in + 10, 2, 50);
       launch_scale(in, in, 2, 50);
       return 0;
     }},
    {"struct",
     [](int, char**) {
       Code taking{"_Z6taking6Struct", {sizeof(Struct), 1}, {}};
       Struct given{allocate<float>(8), 3, 4, allocate<float>(16) + 2, nullptr};
       char flag = 1;
       void* params[] = {&given, &flag};
       launch(taking, 1, 1, params);
       given.second = nullptr;
       return launch(taking, 1, 1, params), 0;
     }},
    {"extra",
     [](int, char**) {
       struct {
         float *out, *in;
         float by;
         int n;
       } buffer{allocate<float>(4), allocate<float>(4), 2, 4};
       size_t size = sizeof buffer;
       void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                        CU_LAUNCH_PARAM_END};
       return launch(scale_function, 1, 4, nullptr, 0, extra), 0;
     }},
    {"sizes",
     [](int, char**) {
       Code none{"none", {}, [](void**) {}}, secret{"secret", {4}, {}, false, true};
       Code bare_kernel{"bare", {}, {}, true, false, 0, &none};
       int value = 1;
       void* params[] = {&value};
       launch(none, 1, 1, params), launch(bare_kernel, 1, 1, params), launch(secret, 1, 1, params);
       return 0;
     }},
    {"cluster",
     [](int, char**) {
       CUlaunchAttribute attributes[2]{};
       attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
       attributes[0].value.clusterDim = {2, 1, 1};
       attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
       attributes[1].value.cooperative = 1;
       CUlaunchConfig config{4, 1, 1, 32, 1, 1, 1024, nullptr, attributes, 2};
       Code plain{"plain", {}, {}}, fixed{"fixed", {}, {}, false, false, 4};
       cuLaunchKernelEx_params p{&config, handle(plain), nullptr, nullptr};
       traced(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, p, plain.name, [] { return CUDA_SUCCESS; });
       cuLaunchCooperativeKernel_params q{handle(plain), 1, 2, 3, 4, 5, 6, 7, nullptr, nullptr};
       traced(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, q, plain.name, [] { return CUDA_SUCCESS; });
       return launch(fixed, 4, 1, nullptr), 0;
     }},
    {"many",  // forms of one kernel, with buffers of 1 MiB
     [](int, char** arg) {
       float *out = allocate<float>(1 << 18), *in = allocate<float>(1 << 18);
       for (int i = 1; i <= atoi(arg[2]); ++i) launch_scale(out, in, float(i), 1 << 18);
       return printf("%d copies\n", copies), 0;
     }},
    {"again",  // the same launches, over and over, and another now and then
     [](int, char**) {
       float *out = allocate<float>(64), *in = allocate<float>(64);
       for (int i = 0; i < 40; ++i) launch_scale(out, in, i % 20 ? 2.0f : 3.0f, 64);
       return printf("%d pointers\n", asked_about), 0;
     }},
    {"large",  // more than one copy each; the second launch changes the last byte alone
     [](int, char**) {
       char* data = allocate<char>((17 << 20) + 3);
       Code last{"last", {8, 4}, [](void** p) {
                   (*static_cast<char**>(p[0]))[(17 << 20) + 2] ^= *static_cast<int*>(p[1]);
                 }};
       for (int by : {0, 1}) {
         void* params[] = {&data, &by};
         launch(last, 1, 1, params);
       }
       return 0;
     }},
    {"names",
     [](int, char**) {
       float* data = allocate<float>(4);
       void* params[] = {&data};
       for (int i = 0; i < 3; ++i) launch(other, 1, 1, params);
       return launch_scale(data, data, 1, 4), 0;
     }},
    {"abort",
     [](int, char**) {
       float* data = allocate<float>(4);
       launch_scale(data, data, 1, 4);
       abort();
       return 0;
     }},
    {"fork",
     [](int, char**) {
       float* data = allocate<float>(4);
       launch_scale(data, data, 1, 4);
       if (pid_t silent = fork(); !silent) exit(0);
       if (pid_t child = fork(); !child) {
         launch_scale(data, data, 2, 4), launch_scale(data, data, 2, 4);
         exit(0);
       }
       while (wait(nullptr) > 0) continue;
       return launch_scale(data, data, 1, 4), 0;
     }},
    {"exec",
     [](int, char** arg) {
       float* data = allocate<float>(4);
       launch_scale(data, data, 2, 4);
       return execl(arg[0], arg[0], "names", nullptr);
     }},
    {"threads",
     [](int, char**) {
       std::vector<std::thread> threads;
       static float* data[2][2];
       for (auto& pair : data) pair[0] = allocate<float>(64), pair[1] = allocate<float>(64);
       for (int t = 0; t < 2; ++t)
         threads.emplace_back([t] {
           for (int i = 0; i < 5000; ++i) launch_scale(data[t][0], data[t][1], float(i % 7), 64);
         });
       for (auto& thread : threads) thread.join();
       return 0;
     }},
    {"graph",
     [](int, char**) {
       float *out = allocate<float>(8), *in = allocate<float>(8);
       begin_capture(1);
       launch_scale(out, in, 2, 8, 1), launch_scale(in, out, 3, 8, 1);
       CUgraphExec two = instantiate(end_capture());
       launch_graph(two), launch_graph(two);
       float by = 5;
       Node& first = **reinterpret_cast<std::vector<Node*>*>(two)->begin();
       CUDA_KERNEL_NODE_PARAMS changed = first.params;
       void* params[] = {first.pointers[0], first.pointers[1], &by, first.pointers[3]};
       changed.kernelParams = params;
       cuGraphExecKernelNodeSetParams_v2_params p{two, reinterpret_cast<CUgraphNode>(&first), &changed};
       traced(CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2, p, nullptr, [] { return CUDA_SUCCESS; });
       launch_graph(two);
       CUgraphNodeParams any{};
       any.type = CU_GRAPH_NODE_TYPE_KERNEL;
       by = 6;
       memcpy(&any.kernel, &changed, sizeof any.kernel);
       cuGraphExecNodeSetParams_params q{two, p.hNode, &any};
       traced(CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams, q, nullptr, [] { return CUDA_SUCCESS; });
       disabled = reinterpret_cast<CUgraphNode>((*reinterpret_cast<std::vector<Node*>*>(two))[1]);
       launch_graph(two);
       cuGraphExecDestroy_params r{two};
       traced(CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy, r, nullptr, [] { return CUDA_SUCCESS; });
       launch_graph(two);
       begin_capture(1);
       launch_scale(out, in, 7, 8, 1);
       return launch_graph(instantiate(end_capture())), 0;
     }},
    {"capturing",
     [](int, char**) {
       float *out = allocate<float>(8), *in = allocate<float>(8);
       begin_capture(1);
       launch_scale(out, in, 2, 8, 1), launch_scale(out, in, 3, 8, 2);
       end_capture();
       launch_scale(out, in, 4, 8, 2);
       Code meanwhile{"meanwhile", {8}, [](void**) { begin_capture(3); }};  // as another thread would
       void* params[] = {&out};
       return launch(meanwhile, 1, 1, params), 0;
     }},
    {"failing",
     [](int, char**) {
       float* data = allocate<float>(8);
       refuse_launch = true;
       launch_scale(data, data, 2, 8);
       refuse_launch = false;
       launch_scale(data, data, 2, 8);
       refuse_copy = true;
       return launch_scale(data, data, 3, 8), 0;
     }},
    {"notes",
     [](int, char**) {
       float* managed = allocate<float>(8, CU_MEMORYTYPE_DEVICE, 1);
       float* pinned = allocate<float>(8, CU_MEMORYTYPE_HOST);
       launch_scale(managed, pinned, 2, 8);
       static float unknown[8];
       launch_scale(managed, reinterpret_cast<float*>(0x7f1234567890), 2, 0);
       cuModuleLoadData_params p{nullptr, unknown};
       traced(CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData, p, nullptr, [] { return CUDA_ERROR_NO_BINARY_FOR_GPU; });
       return 0;
     }},
    {"symbols",  // arg[2]: a cubin; then variables and the values they hold, in 4 bytes each
     [](int count, char** arg) {
       load_module(arg[2]);
       for (int i = 4; i + 1 < count; i += 2) {
         std::vector<int>* values = new std::vector<int>;
         for (char* at = strtok(arg[i + 1], ","); at; at = strtok(nullptr, ",")) values->push_back(atoi(at));
         variables[arg[i]] = {values->data(), values->size() * 4};
       }
       Code function{arg[3], {}, {}}, kernel{arg[3], {}, {}, true, false, 0, &function};
       return launch(kernel, 1, 1, nullptr), launch(function, 2, 1, nullptr), 0;
     }},
    {"descriptors",  // closes what it did not open, as daemons do, and writes to a file of its own
     [](int, char** arg) {
       float* data = allocate<float>(8);
       launch_scale(data, data, 2, 8);
       for (int i = 3; i < 64; ++i) close(i);
       FILE* own = fopen(arg[2], "w");
       launch_scale(data, data, 3, 8);
       fputs("own", own);
       return fclose(own);
     }},
    {"file-size",  // may not write files of more than 4 KiB
     [](int, char**) {
       const rlimit limit{4096, 4096};
       setrlimit(RLIMIT_FSIZE, &limit);
       float* data = allocate<float>(1 << 12);
       return launch_scale(data, data, 2, 8), 0;
     }},
    {"refused", [](int, char**) { return 0; }},
};

int main(int count, char** arg) {
  refuse_subscription = !strcmp(arg[1], "refused");
  if (const char* library = getenv("CUDA_INJECTION64_PATH")) {
    void* loaded = dlopen(library, RTLD_NOW);
    if (!loaded) return fprintf(stderr, "%s\n", dlerror()), 98;
    auto initialize = reinterpret_cast<int (*)()>(dlsym(loaded, "InitializeInjection"));
    if (!initialize || initialize() != 1 || initialize() != 1) return 97;
  }
  const int code = scenarios.at(arg[1])(count, arg);
  printf("%s: %d subscriptions\n", arg[1], subscriptions);
  return code;
}
