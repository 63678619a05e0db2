"""Time limits of compiling, running and timing device code, in seconds of wall-clock time.

Not covered: network clients, which have their own limits (`kcurate.models`, `kcurate.hub.repository`).
"""

from __future__ import annotations

# Starting. A fork is immediate; importing everything takes seconds on a busy machine.
START_WORKER_S = 120.0
# An actor on a Ray cluster, which may have to start a node first.
START_RAY_REFEREE_S = 600.0
# Connecting to the port of a Ray cluster. If nothing listens there, Ray itself fails only after minutes.
FIND_RAY_S = 5.0

# Compiling. Model-written templates can keep a compiler busy for hours.
COMPILE_SIDE_S = 20.0
# One side in Triton: a binary for each configuration of each size, a second or two for a matrix product.
COMPILE_TRITON_S = 60.0
# One run of the host compiler for the emulator.
COMPILE_FOR_EMULATOR_S = 60.0
# The recorder of captures, once per machine: 9 s of CPU time, over a minute when many compilers run.
COMPILE_RECORDER_S = 600.0
# CPU time of one extracted kernel: 200 times the slowest of the 148 kernels of Parboil and Rodinia.
COMPILE_EXTRACTED_S = 120.0
# One task of a stage, on a clock that goes on while others use the machine; CPU time has its own limits.
STAGE_TASK_S = 3600.0
# CPU time of drafting one kernel, with all its runs on the emulator.
DRAFT_CPU_S = 300.0
# Parsing source trees (of a unit, CPU time), at megabytes per second: if it takes longer, it hangs.
SCAN_FILES_S = 300.0
READ_UNIT_S = 300.0
# One unit read by libclang: the slowest, with all of Thrust, take eight seconds.
READ_WITH_CLANG_S = 120.0
# One shard of a dataset, read and written by repository: gigabytes from a slow disk or the Hub.
READ_SHARD_S = 7200.0
# The kernels of a group of repositories, about 1,000 files; with a file at fault it is read again by file.
READ_GROUP_S = 1800.0
# One row of published answers: a dozen runs and builds; the slowest of 250 takes minutes.
READ_ANSWER_S = 1800.0
# One command of git on a repository: listing the 7,169 commits of the largest measured takes 2 s.
GIT_S = 300.0
# Rewriting: the largest kernel of Rodinia takes one second for all rules.
REWRITE_KERNEL_S = 300.0

# Running. One request to a run worker; the emulator, about a thousand times slower than a GPU, has CPU time.
RUN_S = {"cuda": 20.0, "emulator": 120.0}
# A side's trial on a GPU: the larger of TRIAL_S and TRIAL_RATIO times the time of the reference. A side that
# hangs blocks all timing on its GPU until it is killed.
TRIAL_S, TRIAL_RATIO = 3.0, 300.0
# A reference without one of its inputs, which may make it run forever.
WITHOUT_INPUT_S = 10.0
# What has a limit of CPU time may take so many times as long on a machine that does other things too.
STARVED = 6.0
# CPU time of one emulated launch; every launch of the built-in pairs takes well under a second.
EMULATED_LAUNCH_S = 10.0
# One run of a side with counting instrumentation, which takes about five times as long.
COUNT_S = 30.0
# One side at one size in a few random orders of its threads.
ORDERS_S = 10.0
# Generating one trial's inputs with our own code, on a possibly busy machine.
MAKE_INPUTS_S = 180.0
# One side under one tool of compute-sanitizer.
SANITIZE_S = 120.0
# Asking Nsight Compute for its version; starting under it; one side under it, which takes 2 s on average.
ASK_PROFILER_S = 60.0
START_PROFILER_S = 120.0
PROFILE_SIDE_S = 60.0
# Making a problem of one KernelBench module; the slowest of level 1 takes 6 s on two cores.
KERNELBENCH_MODULE_S = 120.0
# KernelBench's own evaluator on one answer, or one build of it with PyTorch's extensions.
KERNELBENCH_ANSWER_S = 300.0

# Timing. Samples are taken until the interval is tight, or for this long.
TIMING_S = 0.7
# The limit for sides too slow for the least number of blocks; the outcome is then `ambiguous_timing`.
TIMING_HARD_S = 30.0

# Judging one completion in training, including all of the above; timing may wait until sampling is over.
REWARD_S = {"cuda": 1800.0, "emulator": 900.0}
