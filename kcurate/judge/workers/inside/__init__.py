"""What runs in a worker process, beside a candidate's code: nothing here makes a pass/fail decision."""
