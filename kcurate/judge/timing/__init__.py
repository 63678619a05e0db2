"""From samples to a speedup: blocks, statistics, calibration, the bandwidth floor, and the decision."""
