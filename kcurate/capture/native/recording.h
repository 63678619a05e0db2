// What both recorders share: the lines and files of ../FORMAT.md, limits, the kernel filter, names.
//
// No CUDA headers. Nothing is done unless KCURATE_CAPTURE_DIR is set. A recorder does for each launch:
//
//     Recorder& recorder = Recorder::instance();
//     if (!recorder.wanted(mangled)) return recorder.launched_other(mangled);
//     Launch launch;                         // kernel, grid, block, ...
//     launch.add_argument(bytes, size, find);
//     Form form = recorder.begin(launch);    // is it new, are its buffers looked at?
//     if (form.look) recorder.look_before(launch, read);
//     ... the launch itself ...
//     if (form.look) recorder.look_after(launch, read);
//     recorder.launched(form, launch);       // or recorder.failed(form)
//
// Every function may be called from any thread. Not covered: finding allocations and copying from them.
#pragma once

#include <cxxabi.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kcurate {

// An allocation that a value points into. `memory`: "device", "managed" or "host".
struct Allocation {
  uint64_t base = 0, bytes = 0;
  const char* memory = "device";
};
// Finds the allocation that holds an address; false: none.
using Find = std::function<bool(uint64_t address, Allocation& found)>;
// Copies `bytes` bytes at an address to host memory; false: it could not.
using Read = std::function<bool(uint64_t address, void* to, size_t bytes)>;

struct Pointer {
  size_t at, buffer;
  uint64_t offset;
};
struct Argument {
  std::string bytes;  // those of pointers are zeros
  std::vector<Pointer> pointers;
};
struct Buffer {
  Allocation place;
  std::optional<bool> changed;
  std::string before, after;  // names of files; empty: none
  bool own = false;           // `before` was written for this launch
  bool unknown = false;       // a kernel that did not run may have written what it holds
};
struct Symbol {
  std::string name, before;
  uint64_t address, bytes;
};
struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};

// One launch. `cluster.x` 0: no cluster. `args_known` false: nobody could tell the sizes of the arguments.
struct Launch {
  std::string kernel;
  Dim3 grid, block, cluster;
  unsigned shared = 0;
  bool cooperative = false, args_known = true, managed = false, unknown_memory = false;
  std::vector<Argument> args;
  std::vector<Buffer> buffers;
  std::vector<Symbol> symbols;

  // Add an argument; values at 8-byte aligned places that lie in an allocation become pointers.
  void add_argument(const void* bytes, size_t size, const Find& find) {
    Argument made;
    made.bytes.assign(static_cast<const char*>(bytes), size);
    for (size_t at = 0; at + 8 <= size; at += 8) {
      uint64_t value;
      memcpy(&value, made.bytes.data() + at, 8);
      if (!value) continue;
      Allocation found;
      if (!find(value, found)) {
        // Where Linux maps memory of 64-bit programs; no usual integer or floating-point value lies there.
        unknown_memory |= value >> 40 >= 0x55 && value >> 47 == 0;
        continue;
      }
      memset(&made.bytes[at], 0, 8);
      made.pointers.push_back({at, buffer_of(found), value - found.base});
    }
    args.push_back(std::move(made));
  }

 private:
  size_t buffer_of(const Allocation& found) {
    managed |= !strcmp(found.memory, "managed");
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].place.base == found.base) return i;
    buffers.push_back({found, {}, "", ""});
    return buffers.size() - 1;
  }
};

// `is_new`: its line is still to be written. `look`: its buffers are to be looked at. `id` -1: only counted by name.
struct Form {
  int id = -1;
  bool is_new = false, look = false;
};

namespace json {
inline std::string text(const std::string& given) {
  std::string out = "\"";
  for (size_t i = 0; i < given.size();) {
    unsigned char c = given[i];
    // The length of a UTF-8 sequence that starts here; 0: none does.
    size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    for (size_t k = 1; k < length; ++k)
      if (i + k >= given.size() || (given[i + k] & 0xc0) != 0x80) length = 0;
    char escaped[8];
    if (!length) {
      out += "\\ufffd";
    } else if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f) {
      snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out.append(given, i, length);
    }
    i += length ? length : 1;
  }
  return out + '"';
}
inline std::string name_or_null(const std::string& name) { return name.empty() ? "null" : text(name); }
inline std::string dim(const Dim3& d) {
  return '[' + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ']';
}
// [a, b, c] of whatever `print` makes of each element.
template <typename All, typename Print>
std::string list(const All& all, Print print) {
  std::string out = "[";
  for (const auto& one : all) out += (out.size() > 1 ? ", " : "") + print(one);
  return out + ']';
}
inline std::string hex(const std::string& bytes) {
  std::string out = "\"";
  for (unsigned char c : bytes) (out += "0123456789abcdef"[c >> 4]) += "0123456789abcdef"[c & 15];
  return out + '"';
}
}  // namespace json

// As a compiler's messages would spell it; the name itself if it is not mangled.
inline std::string demangled(const std::string& name) {
  // A prefix such as `__nv_static_...` may precede the mangled name.
  for (size_t at = name.find("_Z"); at != std::string::npos; at = name.find("_Z", at + 1)) {
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> made(
        abi::__cxa_demangle(name.c_str() + at, nullptr, nullptr, &status), free);
    if (made && !status) return made.get();
  }
  return name;
}

// The name alone: without return type, namespaces, template arguments and parameters.
inline std::string plain_name(const std::string& mangled) {
  std::string name = demangled(mangled);
  auto drop_group = [&name](char open, char close) {
    if (name.empty() || name.back() != close) return;
    int round = 0, depth = 0;
    size_t at = name.size();
    while (at--) {
      const char c = name[at];
      round += (c == ')') - (c == '(');
      if (open == '(' || !round) depth += (c == close) - (c == open);
      if (!depth) break;
    }
    name.resize(at == std::string::npos ? 0 : at);
  };
  drop_group('(', ')');
  drop_group('<', '>');
  size_t at = name.size();
  while (at && (isalnum(static_cast<unsigned char>(name[at - 1])) || strchr("_$", name[at - 1]))) --at;
  return name.substr(at);
}

class Recorder {
 public:
  // Made on first use and never destroyed: the program may still launch while it exits.
  static Recorder& instance() {
    static Recorder* made = [] {
      auto* recorder = new Recorder;
      if (recorder->enabled_) {
        pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                       [] { instance().forked(); });
        atexit([] { instance().end(); });
        at_quick_exit([] { instance().end(); });
      }
      return recorder;
    }();
    return *made;
  }

  bool enabled() const { return enabled_; }
  uint64_t buffer_bytes() const { return buffer_bytes_; }

  // Of the `start` line, which precedes the first other line. Only the first device counts.
  void describe(const char* source, const std::string& device) {
    std::lock_guard<std::mutex> guard(mutex_);
    source_ = source;
    if (device_.empty()) device_ = device;
  }

  // Whether this kernel is recorded; if not, its launches are to be counted with `launched_other`.
  bool wanted(const std::string& mangled) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!filtered_) return true;
    auto [at, is_new] = wanted_.try_emplace(mangled, false);
    if (is_new) at->second = only_.count(plain_name(mangled)) > 0;
    return at->second;
  }

  // The form of a launch that is about to be made; `may_look` false: its buffers cannot be looked at. Follow it with
  // `launched` or `failed`.
  Form begin(const Launch& launch, bool may_look = true) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::map<std::string, int>& known = forms_[launch.kernel];
    const std::string which = key(launch);
    if (known.size() >= kForms && !known.count(which)) {
      note_full(launch.kernel);
      return {};
    }
    auto [at, unseen] = known.try_emplace(which, static_cast<int>(times_.size()));
    if (unseen) times_.push_back(0), claimed_.push_back(false);
    Form form{at->second};
    if (claimed_[form.id]) return form;
    claimed_[form.id] = form.is_new = true;
    const bool late = now_ns() - began_ns_ > limit_seconds_ * 1e9;
    if (late) note_locked("limit", "KCURATE_CAPTURE_SECONDS: later buffers were not looked at");
    form.look = may_look && !late && looked_[launch.kernel] < per_kernel_;
    looked_[launch.kernel] += form.look;
    return form;
  }

  // The form of a launch whose bytes, pointers included, are those of an earlier one, or which comes after the last
  // form of its kernel: telling which words point into an allocation takes a call of the driver each.
  std::optional<Form> known(const std::string& kernel, const std::string& bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (const auto at = repeated_.find(bytes); at != repeated_.end()) return Form{at->second};
    const auto forms = forms_.find(kernel);
    if (forms == forms_.end() || forms->second.size() < kForms) return {};
    note_full(kernel);
    return Form{};
  }

  // The launch was made: count it, and write it down if its form is new. `bytes`: all that it was made of, or empty.
  void launched(const Form& form, const Launch& launch, const std::string& bytes = "") {
    std::lock_guard<std::mutex> guard(mutex_);
    if (form.is_new) {
      claimed_[form.id] = write_line(line(form, launch));  // else the next launch of this form is new again
      if (launch.managed) note_locked("managed", "the host may write managed memory without a call");
      if (!launch.args_known) note_locked("no_params", "parameter sizes of " + launch.kernel + " are not known");
      if (launch.unknown_memory)
        note_locked("unknown_memory", "an argument of " + launch.kernel + " looks like a pointer into no allocation");
    }
    if (form.id < 0) {
      ++others_[launch.kernel];
    } else {
      ++times_[form.id];
      if (!bytes.empty() && claimed_[form.id] && repeated_.size() < kRepeated) repeated_.emplace(bytes, form.id);
      if (order_.size() < kOrder) order_.push_back(form.id);
    }
    counted();
  }

  // The launch was refused: the next one of this form is new again.
  void failed(const Form& form, const Launch& launch) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!form.is_new) return;
    claimed_[form.id] = false;
    looked_[launch.kernel] -= form.look;
    for (const Buffer& buffer : launch.buffers) {
      if (!buffer.own) continue;
      unlink((folder_ + buffer.before).c_str());
      written_.erase({buffer.place.base, buffer.place.bytes});
    }
    for (const Symbol& symbol : launch.symbols) unlink((folder_ + symbol.before).c_str());
  }

  void launched_other(const std::string& mangled) {
    std::lock_guard<std::mutex> guard(mutex_);
    ++others_[mangled];
    counted();
  }

  // Once for each `what`.
  void note(const char* what, const std::string& text) {
    std::lock_guard<std::mutex> guard(mutex_);
    note_locked(what, text);
  }

  // Write what the buffers and symbols hold.
  void look_before(Launch& launch, const Read& read) {
    for (Buffer& buffer : launch.buffers) look_before(buffer, read);
    for (Symbol& symbol : launch.symbols) symbol.before = write_contents(symbol.address, symbol.bytes, read);
  }

  // The file of an earlier launch serves as long as the buffer holds the same.
  void look_before(Buffer& buffer, const Read& read) {
    const auto [base, bytes, memory] = buffer.place;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (const auto at = written_.find({base, bytes}); at != written_.end()) buffer.before = at->second;
    }
    if (!buffer.before.empty() && same_as(buffer.before, base, std::min(bytes, buffer_bytes_), read).value_or(false))
      return;
    buffer.before = write_contents(base, bytes, read);
    buffer.own = !buffer.before.empty();
    std::lock_guard<std::mutex> guard(mutex_);
    if (buffer.own) written_[{base, bytes}] = buffer.before;
  }

  // Compare the buffers with what `look_before` wrote; write those that changed, if that is wanted.
  void look_after(Launch& launch, const Read& read) {
    for (Buffer& buffer : launch.buffers) {
      if (buffer.before.empty()) continue;
      const uint64_t size = std::min(buffer.place.bytes, buffer_bytes_);
      const std::optional<bool> same = same_as(buffer.before, buffer.place.base, size, read);
      if (!same) continue;
      // Of a buffer that was cut, the rest may have changed.
      if (!*same || size == buffer.place.bytes) buffer.changed = !*same;
      if (!*same && after_) buffer.after = write_contents(buffer.place.base, buffer.place.bytes, read);
    }
  }

  // A file with the contents, from the start as far as one buffer's limit goes; its name, or "" if there is none.
  std::string write_contents(uint64_t address, uint64_t bytes, const Read& read) {
    const uint64_t size = std::min(bytes, buffer_bytes_);
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (size > bytes_left_) {
        note_locked("limit", "KCURATE_CAPTURE_BYTES: later contents were not written");
        return "";
      }
      if (!room_for(size)) {
        note_locked("limit", folder_ + " is nearly full: later contents were not written; TMPDIR names another place");
        return "";
      }
      bytes_left_ -= size;
    }
    std::string name;
    const int file = new_file(name);
    const bool whole = file >= 0 && each_chunk(address, size, read, [file](const char* data, size_t length, uint64_t) {
      return write_all(file, data, length);
    });
    if (file >= 0) close(file);
    if (whole) return name;
    if (file >= 0) unlink((folder_ + name).c_str());
    std::lock_guard<std::mutex> guard(mutex_);
    bytes_left_ += size;
    note_locked("limit", "contents of " + std::to_string(size) + " bytes could not be copied or written");
    return "";
  }

  // The same, of host memory.
  std::string write_contents(const void* host, size_t size) {
    return write_contents(reinterpret_cast<uint64_t>(host), size, [](uint64_t from, void* to, size_t bytes) {
      return memcpy(to, reinterpret_cast<const void*>(from), bytes) == to;
    });
  }

 private:
  static constexpr size_t kOrder = 4096, kTimesEvery = 4096, kChunk = 16 << 20, kSpare = 64 << 20;
  static constexpr size_t kForms = 256;  // of one kernel: a loop may pass its counter
  static constexpr size_t kRepeated = 8192;

  Recorder() {
    const char* folder = getenv("KCURATE_CAPTURE_DIR");
    if (!folder || !*folder) return;
    mkdir(folder, 0777);
    char real[PATH_MAX];
    folder_ = std::string(realpath(folder, real) ? real : folder) + '/';  // the program may change its folder
    per_kernel_ = number("KCURATE_CAPTURE_PER_KERNEL", 4);
    bytes_left_ = bytes_ = number("KCURATE_CAPTURE_BYTES", 4ull << 30);
    buffer_bytes_ = number("KCURATE_CAPTURE_BUFFER_BYTES", 256ull << 20);
    after_ = number("KCURATE_CAPTURE_AFTER", 1) != 0;
    const char* seconds = getenv("KCURATE_CAPTURE_SECONDS");
    char* end = nullptr;
    const double given = seconds ? strtod(seconds, &end) : 0;
    if (seconds && end != seconds && !*end) limit_seconds_ = given;
    if (const char* only = getenv("KCURATE_CAPTURE_ONLY"); only && *only) read_filter(only);
    restart();
    enabled_ = true;
  }

  static uint64_t number(const char* variable, uint64_t otherwise) {
    const char* text = getenv(variable);
    char* end = nullptr;
    const uint64_t value = text ? strtoull(text, &end, 10) : 0;
    return text && end != text && !*end ? value : otherwise;
  }

  static uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
  }

  void read_filter(const char* path) {
    FILE* file = fopen(path, "re");
    if (!file) return;
    filtered_ = true;
    char* text = nullptr;
    size_t room = 0;
    while (getline(&text, &room, file) >= 0) {
      text[strcspn(text, " \t\r\n")] = 0;
      if (*text) only_.insert(text);
    }
    free(text);
    fclose(file);
  }

  void restart() {
    pid_ = getpid();
    began_ns_ = now_ns();
    path_ = folder_ + std::to_string(pid_) + '-' + std::to_string(began_ns_) + ".jsonl";
    started_ = ended_ = false;
    launches_ = 0;
    next_file_ = 0;
    lost_ = 0;
    bytes_left_ = bytes_;
    forms_.clear(), times_.clear(), claimed_.clear(), order_.clear(), others_.clear(), looked_.clear(), noted_.clear();
    written_.clear(), repeated_.clear();
  }

  // In the child: a file of its own, begun when there is something to write.
  void forked() {
    const std::string parent = std::to_string(pid_);
    restart();
    ended_ = true;  // a child that launches nothing leaves no file
    forked_from_ = parent;
    mutex_.unlock();
  }

  void end() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (ended_) return;
    write_times();
    auto print = [](int id) { return std::to_string(id); };
    write_line("{\"event\": \"order\", \"forms\": " + json::list(order_, print) + '}');
    write_line("{\"event\": \"end\"}");
    ended_ = true;
  }

  static std::string key(const Launch& launch) {
    std::string made;
    const Dim3 rest{launch.shared, launch.cooperative, launch.args_known};
    for (const Dim3& d : {launch.grid, launch.block, launch.cluster, rest})
      made.append(reinterpret_cast<const char*>(&d), sizeof d);
    for (const Argument& arg : launch.args) {
      made += std::to_string(arg.bytes.size()) + ':' + arg.bytes;
      for (const Pointer& pointer : arg.pointers) made += '*' + std::to_string(pointer.at);  // not a null pointer
    }
    return made;
  }

  std::string line(const Form& form, const Launch& launch) const {
    auto pointer = [](const Pointer& one) {
      return "{\"at\": " + std::to_string(one.at) + ", \"buffer\": " + std::to_string(one.buffer) +
             ", \"offset\": " + std::to_string(one.offset) + '}';
    };
    auto arg = [&](const Argument& one) {
      return "{\"hex\": " + json::hex(one.bytes) + ", \"pointers\": " + json::list(one.pointers, pointer) + '}';
    };
    auto buffer = [](const Buffer& one) {
      const char* changed = !one.changed ? "null" : *one.changed ? "true" : "false";
      return "{\"bytes\": " + std::to_string(one.place.bytes) + ", \"memory\": " + json::text(one.place.memory) +
             ", \"changed\": " + changed + ", \"before\": " + json::name_or_null(one.before) +
             ", \"after\": " + json::name_or_null(one.after) + (one.unknown ? ", \"unknown\": true}" : "}");
    };
    auto symbol = [](const Symbol& one) {
      return "{\"name\": " + json::text(one.name) + ", \"bytes\": " + std::to_string(one.bytes) +
             ", \"before\": " + json::name_or_null(one.before) + '}';
    };
    return "{\"event\": \"launch\", \"form\": " + std::to_string(form.id) +
           ", \"kernel\": " + json::text(launch.kernel) + ", \"grid\": " + json::dim(launch.grid) + ", \"block\": " + json::dim(launch.block) +
           ", \"cluster\": " + (launch.cluster.x ? json::dim(launch.cluster) : "null") +
           ", \"shared\": " + std::to_string(launch.shared) +
           ", \"cooperative\": " + (launch.cooperative ? "true" : "false") +
           ", \"args\": " + (launch.args_known ? json::list(launch.args, arg) : "null") +
           ", \"buffers\": " + json::list(launch.buffers, buffer) +
           ", \"symbols\": " + json::list(launch.symbols, symbol) + '}';
  }

  void note_locked(const std::string& what, const std::string& text) {
    if (noted_.count(what)) return;
    if (write_line("{\"event\": \"note\", \"what\": " + json::text(what) + ", \"text\": " + json::text(text) + '}'))
      noted_.insert(what);
  }

  void note_full(const std::string& kernel) {
    note_locked("limit", kernel + ": forms after " + std::to_string(kForms) + " were only counted");
  }

  void counted() {
    ended_ = false;
    if (++launches_ % kTimesEvery == 0) write_times();
  }

  void write_times() {
    std::string forms, others;
    for (size_t i = 0; i < times_.size(); ++i)
      if (times_[i]) forms += (forms.empty() ? "\"" : ", \"") + std::to_string(i) + "\": " + std::to_string(times_[i]);
    for (const auto& [name, times] : others_)
      others += (others.empty() ? "" : ", ") + json::text(name) + ": " + std::to_string(times);
    write_line("{\"event\": \"times\", \"forms\": {" + forms + "}, \"others\": {" + others + "}}");
  }

  // One line, at once; false: it could not be written, which is said as soon as a line can be. The file is opened for
  // each: the program may close descriptors that it did not open.
  bool write_line(const std::string& text) {
    ended_ = false;
    std::string whole;
    if (!started_) whole += start_lines();
    if (lost_)  // perhaps in the middle of a line
      whole += "\n{\"event\": \"note\", \"what\": \"lost\", \"text\": " +
               json::text(std::to_string(lost_) + " times: " + strerror(why_lost_)) + "}\n";
    whole += text + '\n';
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || !write_all(file, whole.data(), whole.size())) {
      why_lost_ = errno;
      if (file >= 0) close(file);
      ++lost_;
      return false;
    }
    close(file);
    lost_ = 0;
    return started_ = true;
  }

  std::string start_lines() const {
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    std::string made = "{\"event\": \"start\", \"version\": 1, \"pid\": " + std::to_string(pid_) +
                       ", \"source\": " + json::text(source_) +
                       ", \"program\": " + json::text(std::string(program, length > 0 ? length : 0)) +
                       ", \"device\": " + json::text(device_) + "}\n";
    if (!forked_from_.empty())
      made += "{\"event\": \"note\", \"what\": \"fork\", \"text\": " +
              json::text("the process is a fork of " + forked_from_) + "}\n";
    return made;
  }

  // Contents leave room for lines, and for the program's own files.
  bool room_for(uint64_t size) const {
    struct statvfs disk;
    if (statvfs(folder_.c_str(), &disk)) return true;
    return uint64_t{disk.f_bavail} * disk.f_frsize >= size + kSpare;
  }

  // A new contents file; a process that called `exec` finds those of its former program there.
  int new_file(std::string& name) {
    for (;;) {
      {
        std::lock_guard<std::mutex> guard(mutex_);
        name = std::to_string(pid_) + '-' + std::to_string(next_file_++) + ".bin";
      }
      const int file = open((folder_ + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file >= 0 || errno != EEXIST) return file;
    }
  }

  // A file-size limit of the program must not end it with a signal.
  static bool write_all(int file, const char* data, size_t length) {
    sigset_t beyond, old;
    sigemptyset(&beyond);
    sigaddset(&beyond, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &beyond, &old);
    while (length) {
      const ssize_t done = write(file, data, length);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) break;
      data += done, length -= done;
    }
    const int why = length ? errno : 0;
    const timespec at_once{0, 0};
    if (length && !sigismember(&old, SIGXFSZ)) sigtimedwait(&beyond, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    errno = why;
    return !length;
  }

  // Call `use(data, length, offset)` for each part of an allocation; false once it or the copy fails.
  template <typename Use>
  static bool each_chunk(uint64_t address, uint64_t size, const Read& read, Use use) {
    std::unique_ptr<char, void (*)(void*)> data(static_cast<char*>(malloc(std::min<uint64_t>(size, kChunk) + 1)), free);
    if (!data) return false;
    for (uint64_t done = 0; done < size; done += kChunk) {
      const size_t length = std::min<uint64_t>(size - done, kChunk);
      if (!read(address + done, data.get(), length) || !use(data.get(), length, done)) return false;
    }
    return true;
  }

  // Whether an allocation still holds what the file does; nothing if that cannot be told.
  std::optional<bool> same_as(const std::string& name, uint64_t address, uint64_t size, const Read& read) const {
    const int file = open((folder_ + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    bool differs = false;
    std::string kept(std::min<uint64_t>(size, kChunk), 0);
    const bool whole = each_chunk(address, size, read, [&](const char* data, size_t length, uint64_t offset) {
      size_t have = 0;
      while (have < length) {
        const ssize_t got = pread(file, &kept[have], length - have, offset + have);
        if (got <= 0) return false;
        have += got;
      }
      differs = memcmp(data, kept.data(), length) != 0;
      return !differs;
    });
    close(file);
    if (differs) return false;
    return whole ? std::optional<bool>(true) : std::nullopt;
  }

  std::mutex mutex_;
  bool enabled_ = false, filtered_ = false, after_ = true, started_ = false, ended_ = false;
  std::string folder_, path_, source_, device_, forked_from_;
  std::set<std::string> only_, noted_;
  std::map<std::string, bool> wanted_;
  std::map<std::string, std::map<std::string, int>> forms_;  // by kernel
  std::map<std::string, uint64_t> looked_, others_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> written_;  // the newest file of an allocation
  std::unordered_map<std::string, int> repeated_;  // forms by the bytes of a launch
  std::vector<uint64_t> times_;
  std::vector<bool> claimed_;
  std::vector<int> order_;
  uint64_t per_kernel_ = 0, bytes_ = 0, bytes_left_ = 0, buffer_bytes_ = 0;
  double limit_seconds_ = 600;
  uint64_t began_ns_ = 0, launches_ = 0, next_file_ = 0, lost_ = 0;
  int why_lost_ = 0;
  pid_t pid_ = 0;
};

}  // namespace kcurate
