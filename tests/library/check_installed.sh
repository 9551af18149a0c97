#!/usr/bin/env bash
# Installs the build into a folder of its own, builds examples/ring_mpi against it with find_package, and runs it on 1, 2
# and 3 ranks: all print the same checksum.
#
#   check_installed.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build_dir" --prefix "$work/rondo" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
cmake -S "$source_dir/examples/ring_mpi" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/rondo" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
sums=()
for ranks in 1 2 3; do
  out=$(timeout 100 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np "$ranks" "$work/build/ring_mpi")
  echo "$ranks ranks: $out"
  [[ $out == checksum\ * ]] || exit 1
  sums+=("$out")
done
[[ ${sums[0]} == "${sums[1]}" && ${sums[0]} == "${sums[2]}" ]] || { echo "the checksums differ"; exit 1; }
