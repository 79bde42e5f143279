#!/usr/bin/env bash
# Build one plan: build_plan.sh <compute capability> <ONNX file> <plan> [arguments of trtexec]
# On another GPU than the one that is asked for it would be a plan that nobody loads.
set -euo pipefail
wanted=$1 onnx=$2 plan=$3
shift 3
found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u)
if [ "$found" != "$wanted" ]; then
  echo "error: the GPU has compute capability $found, and the plan is for $wanted" >&2
  exit 1
fi
PATH=$PATH:/usr/src/tensorrt/bin
# Where it is killed, no half of a plan has its name.
trtexec --onnx="$onnx" --saveEngine="$plan.part" --skipInference "$@"
mv "$plan.part" "$plan"
