"""From samples to a speedup: blocks, statistics, calibration, bandwidth floor, decision.

| module | what |
|---|---|
| `a_against_a` | the self-test of timing: a kernel against its own copy, whose true ratio is 1 |
| `blocks` | the timing protocol: which samples are taken, in which order, and when to stop |
| `calibration` | one GPU's calibration, measured once and cached |
| `decision` | the timing stage of a case: two loaded sides in, a ruling out; the bandwidth floor |
| `statistics` | a confidence interval of the speedup from raw samples, and the outcome from it |
"""
