// Signals that device code can cause, and the clock that ends it, turned into a fault of the launch.
#pragma once

#include <sys/time.h>

#include "meetings.h"

namespace kcu
{

const int CAUGHT[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF};
const int CAUGHT_COUNT = sizeof CAUGHT / sizeof CAUGHT[0];
static struct sigaction before[CAUGHT_COUNT];

inline void describe(int signal, void *address)
{
    State &s = *state;
    int used = locate(s.message, sizeof s.message);
    char *text = s.message + used;
    const size_t room = sizeof s.message - used;
    char *end = s.dynamic_end, *place = static_cast<char *>(address);
    s.fault = KCU_LAUNCH;
    s.address = nullptr;
    if (signal == SIGPROF) {
        s.fault = KCU_TIMEOUT;
        snprintf(text, room, "the launch ran past the emulator's limit");
    } else if (signal == SIGFPE) {
        snprintf(text, room, "an integer division by zero");
    } else if (signal == SIGILL || signal == SIGTRAP) {
        s.fault = KCU_BOUNDS;
        snprintf(text, room, "an index outside its array, or a trap");
    } else if (s.stacks.overflowed(address)) {
        snprintf(text, room, "local variables larger than the emulator's stack of %zu bytes", STACK_BYTES);
    } else if (place >= end && place < end + SHARED_GUARD) {
        s.fault = KCU_BOUNDS;
        snprintf(text, room, "%td bytes past the end of dynamic shared memory", place - end);
    } else if (!address) {
        snprintf(text, room, "a misaligned or impossible address");
    } else {
        s.fault = KCU_BOUNDS;
        s.address = address;
        snprintf(text, room, "the address %p", address);
    }
}

static void caught(int signal, siginfo_t *info, void *)
{
    if (!state->armed) { // not while device code runs: no fault of a launch
        struct sigaction standard = {};
        standard.sa_handler = SIG_DFL;
        sigaction(signal, &standard, nullptr);
        return;
    }
    state->armed = 0;
    describe(signal, signal == SIGPROF || info->si_code == SI_KERNEL ? nullptr : info->si_addr);
    siglongjmp(state->escape, 1);
}

inline void set_limit(double seconds)
{
    itimerval timer = {};
    timer.it_value.tv_sec = long(seconds);
    timer.it_value.tv_usec = long((seconds - double(long(seconds))) * 1e6);
    setitimer(ITIMER_PROF, &timer, nullptr);
}

inline void catch_signals(double limit_s)
{
    static char stack[64 << 10];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CAUGHT_COUNT; i++) sigaction(CAUGHT[i], &action, &before[i]);
    state->armed = 1;
    set_limit(limit_s);
}

inline void release_signals()
{
    set_limit(0);
    state->armed = 0;
    for (int i = 0; i < CAUGHT_COUNT; i++) sigaction(CAUGHT[i], &before[i], nullptr);
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
}

} // namespace kcu
