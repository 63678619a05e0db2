"""Changes to a side, wrong ones and honest ones, to test the judge with."""
