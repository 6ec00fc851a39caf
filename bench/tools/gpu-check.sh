#!/bin/sh
# Everything that holds on a GPU, in one table: see gpu_check.py beside this file.
exec python3 "$(dirname "$0")/gpu_check.py" "$@"
