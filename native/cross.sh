#!/bin/sh
# Tests the kernels of another architecture: compiles them for arm64 with Debian's
# g++-aarch64-linux-gnu and runs their test program (native/test/kernels-test.cc) in qemu-user.
# Fails with a message where compiler or emulator are missing.
#
#   sh native/cross.sh [--addon FILE]
#
# FILE: also links the addon of arm64, which test/arm64.sh loads into an arm64 Node.
set -eu
addon=
if [ "${1:-}" = --addon ]; then
  addon=$(mkdir -p "$(dirname "$2")" && cd "$(dirname "$2")" && pwd)/$(basename "$2")
fi
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
# No arm64 processor needs portable code: here it checks NEON.
sets="portable neon"
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
compile_parts "$objects" "$(list_parts "$sets" "test/kernels-test: ${addon:+bindings/addon:}")" \
  -O3 -fPIC -std=c++17 -fno-math-errno -ffp-contract=off -fvisibility=hidden -I . -I "$headers"
if [ -n "$addon" ]; then
  mv "$objects/test-kernels-test-.o" "$objects/test"
  "$compiler" -shared -pthread "$objects"/*.o -o "$addon"
  mv "$objects/test" "$objects/test-kernels-test-.o"
  rm "$objects/bindings-addon-.o"
fi
"$compiler" -pthread "$objects"/*.o -o "$objects/kernels-test"
echo "osiris: running the kernels of arm64 ($sets) in an emulator"
"$emulator" -L "$libraries" "$objects/kernels-test"
