"""`kcurate profile`: Nsight Compute's counters of both sides of proved pairs; labels held against them."""
