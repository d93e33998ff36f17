#!/bin/sh
# Tests the kernels of another architecture: compiles them for arm64 with Debian's
# g++-aarch64-linux-gnu and runs their test program (native/test/kernels-test.cc) in qemu-user.
# Fails with a message where compiler or emulator are missing. CXX names another compiler.
#
#   sh native/cross.sh [--count]
#
# --count: instead of testing the kernels, counts their instructions.
set -eu
program=kernels-test
[ "${1:-}" != --count ] || program=count
cd "$(dirname "$0")"
compiler=${CXX:-aarch64-linux-gnu-g++}
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
# No arm64 processor needs portable code: here it checks NEON.
sets="portable neon"
compile_parts "$objects" "$(list_parts "$sets" "test/$program:")" \
  -O3 -std=c++17 -fno-math-errno -ffp-contract=off -I .
"$compiler" -pthread "$objects"/*.o -o "$objects/$program"
if [ "$program" = kernels-test ]; then
  echo "osiris: running the kernels of arm64 ($sets) in an emulator"
  "$emulator" -L "$libraries" "$objects/kernels-test"
  exit
fi
cc -shared -fPIC -O2 test/count-plugin.c -o "$objects/counts"
# instructions SET KERNEL TIMES: the instructions of the program, on stdout.
instructions() {
  "$emulator" -L "$libraries" -plugin "$objects/counts" "$objects/count" "$@" 2>&1 >/dev/null
}
echo "instructions an element, on arm64: portable, NEON, their ratio"
for kernel in linear linearBfloat16 dLinearWeight interact layerNorm pool poolFloat16 updateRows; do
  elements=$("$emulator" -L "$libraries" "$objects/count" neon "$kernel" 1)
  for set in portable neon; do
    # The third call less the second, when scratch memory has its size.
    echo "$kernel $elements $(instructions $set $kernel 2) $(instructions $set $kernel 3)"
  done
done | awk '{ each = ($4 - $3) / $2 }
  NR % 2 == 1 { portable = each; next }
  { printf "%-15s %8.3f %8.3f %6.1f\n", $1, portable, each, portable / each }'
