"""The code of worker processes, which runs beside a candidate's code and makes no pass/fail decision."""
