#!/bin/sh
# Collects what docs/cuda.md is made of, in at most three minutes on a fast GPU:
#
#     bench/tools/cuda-bench.sh ONETRIP MODELS_DIR OUT_DIR && bench/tools/cuda-doc.py OUT_DIR > docs/cuda.md
#
# MODELS_DIR holds some of q05f16.gguf, q05q4.gguf (Qwen2.5-0.5B F16, Q4_0), l8q8.gguf, l8q4.gguf (Llama-8B Q8_0, Q4_0) and
# q9q4.gguf (Qwen3.5-9B Q4_0). OUT_DIR gets one JSON file a measurement. A measurement that fails leaves a .err file, and the page
# says that it is missing. DEVICE=cuda:1 measures another GPU.
[ $# -eq 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
binary=$1 models=$2 out=$3 device=${DEVICE:-cuda}
mkdir -p "$out"
begin=$(date +%s)

# take NAME COMMAND…: the JSON of a command, in at most a minute.
take() {
    name=$1
    shift
    timeout 60 "$binary" "$@" --device "$device" --json > "$out/$name.json" 2> "$out/$name.err" || rm -f "$out/$name.json"
    [ -s "$out/$name.err" ] && [ ! -e "$out/$name.json" ] || rm -f "$out/$name.err"
    echo "$(($(date +%s) - begin)) s: $name" >&2
}

"$binary" devices --json > "$out/devices.json"
take calibrate calibrate --write "$out/profile.toml"
for model in q05f16 q05q4 l8q8 l8q4 q9q4; do
    file=$models/$model.gguf
    [ -e "$file" ] || continue
    take "bench-$model" bench -m "$file" --prompt 2048 --context 256 --gen 128 --repeat 5
    take "profile-$model" profile -m "$file" --context 256 --hardware "$out/profile.toml"
    ONETRIP_CUDA_LAUNCH=serial take "serial-$model" bench -m "$file" --prompt 0 --context 256 --gen 64 --repeat 5
    take "each-$model" bench -m "$file" --prompt 0 --context 256 --gen 64 --repeat 5 --commit each
done
file=$models/l8q4.gguf
if [ -e "$file" ]; then
    for context in 4096 32000; do
        take "context-$context" bench -m "$file" --prompt 0 --context $context --gen 32 --repeat 5
    done
    for batch in 8 32; do
        take "batch-$batch" bench -m "$file" --prompt 0 --context 256 --gen 32 --batch $batch --repeat 5
    done
fi
file=$models/q05q4.gguf
if [ -e "$file" ]; then
    for ticks in 2 4 8; do
        take "ticks-$ticks" bench -m "$file" --prompt 0 --context 256 --gen 128 --repeat 5 --ticks-per-launch $ticks
    done
    take compute-f16 bench -m "$models/q05f16.gguf" --prompt 2048 --gen 0 --repeat 5 --compute f16
    take compute-f32 bench -m "$models/q05f16.gguf" --prompt 2048 --gen 0 --repeat 5 --compute f32
fi
exit 0
