#!/bin/sh
# The experiment in small, from a dataset to its tables: killed in the middle, continued, and gone on with by
# another machine from what the first sent back. Writes under WORK only.
#
#     benchmarks/rehearse.sh random DATASET WORK            # a random model, on a CPU too: some minutes
#     benchmarks/rehearse.sh MODEL.gguf DATASET WORK        # the model itself, on a GPU
#
# DATASET comes from `kcurate build`. PYTHON (default python3), FEW (tasks, default 4), STEPS (default 4) and
# TOKENS (longest completion, default 24) can be set.
set -eu
model=$1 dataset=$2 work=$3
here=$(dirname "$0")
run="${PYTHON:-python3} $here/experiment.py"
mkdir -p "$work"
if [ "$model" = random ]; then
    model=$work/random
    [ -d "$model" ] || PYTHONPATH=$here/.. ${PYTHON:-python3} -c "
import pathlib, sys
from kcurate.reward import pair_tasks
from kcurate.train import random_model
random_model.write(pathlib.Path(sys.argv[1]), pair_tasks.load()[::8], seed=1)" "$model"
fi
small="--model $model --tasks $work/tasks --set sft.max_steps=${STEPS:-4} --set sft.save_steps=1
    --set sft.max_tokens=4096 --set measure.max_completion_tokens=${TOKENS:-24} --set measure.batch=8"
$run prepare $small --dataset "$dataset" --few "${FEW:-4}"

# The first machine: killed between two steps of training, then continued, then given back.
first="$small --state $work/first --work $work/first-work --out $work/out"
$run base all $first & pid=$!
while kill -0 $pid 2> /dev/null && [ -z "$(ls -d "$work"/first-work/all/sft/checkpoint-* 2> /dev/null)" ]; do
    sleep 1
done
kill -9 $pid 2> /dev/null || true
wait $pid || true
$run base all $first

# Another machine: what came back, the other arms, and those that are not run on this condition.
second="$small --state $work/second --work $work/second-work --out $work/further"
$run base all form shuffled half quarter eighth no-explanations no-minted all-2 half-2 shuffled-2 $second \
    --from "$work/out" --budget-s 100000
$run grpo $second || echo 'as it should be: GRPO has a condition'
$run merge --state "$work/kept" --from "$work/out"
$run merge --state "$work/kept" --from "$work/further"
PYTHONPATH=$here/..:$here ${PYTHON:-python3} -c "
import pathlib, sys
import experiment_report
print(experiment_report.tables(pathlib.Path(sys.argv[1])))
experiment_report.draw(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1], 'curve.svg'))" "$work/kept"
