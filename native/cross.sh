#!/bin/sh
# Tests the kernels of another architecture: compiles them for arm64 with Debian's
# g++-aarch64-linux-gnu and runs their test program (native/test/kernels-test.cc) in qemu-user.
# Fails with a message where compiler or emulator are missing.
set -eu
cd "$(dirname "$0")"
compiler=aarch64-linux-gnu-g++
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
if [ -z "$emulator" ] || ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: the kernels of arm64 were not run: install g++-aarch64-linux-gnu and qemu-user" >&2
  exit 1
fi
# The compiler's libraries, which the emulated programs load.
libraries=/usr/aarch64-linux-gnu
. ./parts.sh
objects=build/cross.$$
trap 'rm -rf "$objects"' EXIT
mkdir -p "$objects"
sets=$(choose_sets all)
compile_parts "$objects" "$(list_parts "$sets" test/kernels-test:)" \
  -O3 -std=c++17 -fno-math-errno -ffp-contract=off -I .
"$compiler" "$objects"/*.o -o "$objects/kernels-test"
echo "osiris: running the kernels of arm64 ($sets) in an emulator"
"$emulator" -L "$libraries" "$objects/kernels-test"
