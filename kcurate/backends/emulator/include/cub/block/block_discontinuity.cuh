// Flagging the items of a block that differ from the item before (heads) or after (tails).
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
template <class T, int X, int Y = 1, int Z = 1> class BlockDiscontinuity : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    using kcu_base::THREADS;
    struct Storage {
        kcu_room<T, THREADS> firsts, lasts;
    };

public:
    struct TempStorage : kcu_raw<Storage> {};

private:
    KCU_COLLECTIVE(BlockDiscontinuity)

private:
    // An operator may also take the index of the second item in its block.
    template <class Op> static auto differ(Op &op, const T &a, const T &b, int at, int) -> decltype(bool(op(a, b, at)))
    {
        return op(a, b, at);
    }
    template <class Op> static bool differ(Op &op, const T &a, const T &b, int, long) { return op(a, b); }
    template <int N> void show(T (&input)[N])
    {
        temp.firsts[this->rank] = input[0];
        temp.lasts[this->rank] = input[N - 1];
        this->wait();
    }
    // `edge`: the item before the block, if it is known; else its first item is a head.
    template <int N, class F, class Op> void heads(F (&flags)[N], T (&input)[N], Op op, const T *edge)
    {
        const int first = this->rank * N;
        for (int i = N - 1; i > 0; i--) flags[i] = differ(op, input[i - 1], input[i], first + i, 0);
        if (this->rank == 0 && !edge)
            flags[0] = 1;
        else
            flags[0] = differ(op, this->rank ? temp.lasts[this->rank - 1] : *edge, input[0], first, 0);
    }
    template <int N, class F, class Op> void tails(F (&flags)[N], T (&input)[N], Op op, const T *edge)
    {
        const int first = this->rank * N;
        const bool last = this->rank == THREADS - 1;
        for (int i = 0; i < N - 1; i++) flags[i] = differ(op, input[i], input[i + 1], first + i + 1, 0);
        if (last && !edge)
            flags[N - 1] = 1;
        else
            flags[N - 1] = differ(op, input[N - 1], last ? *edge : temp.firsts[this->rank + 1], first + N, 0);
    }

public:
    template <int N, class F, class Op> void FlagHeads(F (&flags)[N], T (&input)[N], Op op)
    {
        show(input);
        heads(flags, input, op, nullptr);
    }
    template <int N, class F, class Op> void FlagHeads(F (&flags)[N], T (&input)[N], Op op, T before)
    {
        show(input);
        heads(flags, input, op, &before);
    }
    template <int N, class F, class Op> void FlagTails(F (&flags)[N], T (&input)[N], Op op)
    {
        show(input);
        tails(flags, input, op, nullptr);
    }
    template <int N, class F, class Op> void FlagTails(F (&flags)[N], T (&input)[N], Op op, T after)
    {
        show(input);
        tails(flags, input, op, &after);
    }
#define KCU_BOTH(PARAMETERS, BEFORE, AFTER)                                                                  \
    template <int N, class F, class Op> void FlagHeadsAndTails PARAMETERS                                    \
    {                                                                                                        \
        show(input);                                                                                         \
        heads(head_flags, input, op, BEFORE);                                                                \
        tails(tail_flags, input, op, AFTER);                                                                 \
    }
    KCU_BOTH((F (&head_flags)[N], F (&tail_flags)[N], T (&input)[N], Op op), nullptr, nullptr)
    KCU_BOTH((F (&head_flags)[N], F (&tail_flags)[N], T after, T (&input)[N], Op op), nullptr, &after)
    KCU_BOTH((F (&head_flags)[N], T before, F (&tail_flags)[N], T (&input)[N], Op op), &before, nullptr)
    KCU_BOTH((F (&head_flags)[N], T before, F (&tail_flags)[N], T after, T (&input)[N], Op op), &before, &after)
#undef KCU_BOTH
};
} // namespace cub
