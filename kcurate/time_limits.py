"""How long compiling, running and timing device code may take, in seconds of wall-clock time.

Not covered: model servers, the Hub and other network clients, which keep their own limits
(`kcurate.deopt.models`); how long a user lets a whole run take.
"""

from __future__ import annotations

# Starting. A fork is answered at once; importing everything takes seconds on a busy machine.
START_WORKER_S = 120.0
# An actor on a Ray cluster that may have to start a machine first.
START_RAY_REFEREE_S = 600.0

# Compiling. Model-written templates can keep a compiler busy for hours.
COMPILE_SIDE_S = 20.0
# One run of the host compiler for the emulator.
COMPILE_FOR_EMULATOR_S = 60.0
# One extracted kernel: 200 times what the slowest of the 148 kernels of Parboil and Rodinia takes.
COMPILE_EXTRACTED_S = 120.0
# Reading source trees: parsing runs at megabytes a second, so what takes longer never ends.
SCAN_FILES_S = 300.0
READ_UNIT_S = 300.0

# Running. What a side may take for one request; the emulator is some thousand times slower than a GPU.
RUN_S = {"cuda": 20.0, "emulator": 120.0}
# On a GPU a side has this long for a trial, or this many times as long as the reference took for it: one that
# hangs keeps everybody from taking times until it is killed.
TRIAL_S, TRIAL_RATIO = 3.0, 300.0
# Processor time of one emulated launch; the largest of a built-in pair takes well under a second.
EMULATED_LAUNCH_S = 10.0
# Making one trial's inputs: our own code, on a machine that may be busy.
MAKE_INPUTS_S = 180.0
# One side under one tool of compute-sanitizer.
SANITIZE_S = 120.0
# One KernelBench module made into a problem; the slowest of level 1 takes 6 s on two cores.
KERNELBENCH_MODULE_S = 120.0

# Timing. Samples are taken until the interval is tight, or for this long.
TIMING_S = 3.0
# However slow the sides are, this ends timing; with too few blocks the outcome is ambiguous.
TIMING_HARD_S = 30.0

# One completion in training, over everything above; its times may wait until others are sampled.
REWARD_S = {"cuda": 1800.0, "emulator": 900.0}
