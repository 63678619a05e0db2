// Asynchronous copies into shared memory. Source: CUDA C++ Programming Guide, "Pipeline Primitives
// Interface".
#pragma once

#include "kcurate/language.h"

KCU_API void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0)
{
    kcu_copy_later(to, from, unsigned(bytes), unsigned(zeros));
}
KCU_API void __pipeline_commit() { kcu_commit_copies(); }
KCU_API void __pipeline_wait_prior(unsigned batches_left) { kcu_finish_copies(batches_left); }
