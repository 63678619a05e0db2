// `cuda::pipeline`: stages that producers fill and consumers empty, each behind two barriers; alone in a thread, its
// groups of asynchronous copies.
// Source: CUDA C++ Core Libraries (libcu++), "Extended API: Synchronization Primitives, Pipelines".
#pragma once

#include "barrier_class.h"

namespace cuda
{
enum class pipeline_role { producer, consumer };
template <thread_scope Scope> struct kcu_stage {
    barrier<Scope> produced, consumed;
};
template <thread_scope Scope, uint8_t Stages> class pipeline_shared_state
{
public:
    pipeline_shared_state() = default;
    pipeline_shared_state(const pipeline_shared_state &) = delete;
    pipeline_shared_state &operator=(const pipeline_shared_state &) = delete;
    kcu_stage<Scope> kcu_stages[Stages];
    unsigned kcu_producers;
};

template <thread_scope Scope> class pipeline
{
    kcu_stage<Scope> *stages;
    uint8_t count, head = 0, tail = 0;
    bool consumed_parity = true, produced_parity = false;

public:
    pipeline(kcu_stage<Scope> *first, uint8_t stage_count) : stages(first), count(stage_count) {}
    pipeline(pipeline &&) = default;
    pipeline(const pipeline &) = delete;
    pipeline &operator=(const pipeline &) = delete;
    ~pipeline() {}
    unsigned long long *kcu_filling() { return stages[head].produced.kcu_handle(); }
    bool quit() { return false; }
    void producer_acquire() { stages[head].consumed.wait_parity(consumed_parity); }
    void producer_commit()
    {
        (void)stages[head].produced.arrive();
        if (++head < count) return;
        head = 0;
        consumed_parity = !consumed_parity;
    }
    void consumer_wait() { stages[tail].produced.wait_parity(produced_parity); }
    void consumer_release()
    {
        (void)stages[tail].consumed.arrive();
        if (++tail < count) return;
        tail = 0;
        produced_parity = !produced_parity;
    }
};

struct kcu_opened {};
template <> class pipeline<thread_scope_thread>
{
    uint8_t head = 0, tail = 0; // their difference counts
    template <uint8_t Left> friend void pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &);

public:
    explicit pipeline(kcu_opened) {}
    ~pipeline() {}
    pipeline(pipeline &&) = default;
    pipeline(const pipeline &) = delete;
    pipeline &operator=(const pipeline &) = delete;
    bool quit() { return true; }
    void producer_acquire() {}
    void producer_commit()
    {
        kcu_commit_copies();
        head++;
    }
    // For the oldest batch that was not waited for yet.
    void consumer_wait()
    {
        if (head == tail) return;
        kcu_finish_copies(uint8_t(head - tail - 1));
        tail++;
    }
    void consumer_release() {}
};

KCU_API pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>(kcu_opened()); }
template <class G, thread_scope Scope, uint8_t Stages>
KCU_API pipeline<Scope> kcu_open(const G &group, pipeline_shared_state<Scope, Stages> *shared, size_t producers,
                                 size_t consumers)
{
    if (group.thread_rank() == 0)
        for (auto &stage : shared->kcu_stages) {
            init(&stage.produced, ptrdiff_t(producers));
            init(&stage.consumed, ptrdiff_t(consumers));
        }
    group.sync();
    return {shared->kcu_stages, Stages};
}
template <class G, thread_scope Scope, uint8_t Stages>
KCU_API pipeline<Scope> make_pipeline(const G &group, pipeline_shared_state<Scope, Stages> *shared)
{
    return kcu_open(group, shared, group.size(), group.size());
}
template <class G, thread_scope Scope, uint8_t Stages>
KCU_API pipeline<Scope> make_pipeline(const G &group, pipeline_shared_state<Scope, Stages> *shared, size_t producers)
{
    return kcu_open(group, shared, producers, group.size() - producers);
}
template <class G, thread_scope Scope, uint8_t Stages>
KCU_API pipeline<Scope> make_pipeline(const G &group, pipeline_shared_state<Scope, Stages> *shared, pipeline_role role)
{
    if (group.thread_rank() == 0) shared->kcu_producers = 0;
    group.sync();
    shared->kcu_producers += role == pipeline_role::producer;
    group.sync();
    const size_t producers = shared->kcu_producers;
    return kcu_open(group, shared, producers, group.size() - producers);
}
template <uint8_t Left> KCU_API void pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &p)
{
    kcu_finish_copies(Left);
    p.tail = p.head - Left;
}
template <thread_scope Scope>
KCU_API void pipeline_producer_commit(pipeline<thread_scope_thread> &, barrier<Scope> &)
{
    kcu_finish_copies(~0u); // as if they were done when the barrier is asked
}

template <class G, class S, thread_scope Scope>
KCU_API async_contract_fulfillment memcpy_async(const G &group, void *to, const void *from, S bytes,
                                                pipeline<Scope> &p)
{
    if constexpr (Scope == thread_scope_thread)
        return kcu_copy(group, to, from, bytes, [=](char *into, const char *out, unsigned count) {
            const unsigned word = ((size_t)into | (size_t)out | count) % 16 == 0  ? 16
                                  : ((size_t)into | (size_t)out | count) % 8 == 0 ? 8
                                                                                  : 4;
            for (unsigned at = 0; at < count; at += word) kcu_copy_later(into + at, out + at, word, 0);
        });
    else {
        unsigned long long *handle = p.kcu_filling();
        return kcu_copy(group, to, from, bytes, [=](char *into, const char *out, unsigned count) {
            kcu_copy_to_mbarrier(into, out, count, handle);
        });
    }
}
template <class S, thread_scope Scope>
KCU_API async_contract_fulfillment memcpy_async(void *to, const void *from, S bytes, pipeline<Scope> &p)
{
    return memcpy_async(kcu_alone(), to, from, bytes, p);
}
} // namespace cuda
