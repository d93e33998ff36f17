#!/bin/sh
# Runs the kernels on random shapes under the address and undefined-behaviour sanitizers. Fails
# where a sanitizer complains or a number is wrong. Without a compiler it says so and exits with
# success. CXX names another compiler, OSIRIS_JOBS the number of parts compiled at the same time
# (default: one per core).
set -eu
cd "$(dirname "$0")"
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: there is no C++ compiler ($compiler); the kernels were not sanitized"
  exit 0
fi
. ./parts.sh
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
objects=build/sanitized.$$
trap 'rm -rf "$objects"' EXIT
mkdir -p "$objects"
# The sets that this processor runs, and portable code: the others could not be run here.
sets=$(choose_sets native)
are_among "$sets" portable || sets="portable $sets"
warnings="-Wall -Wextra -Werror"
# shellcheck disable=SC2086
"$compiler" -fsyntax-only -std=c++17 $warnings -I . -I "$headers" bindings/addon.cc
# Unoptimized, with line tables only: this compiles in a third of the time.
# shellcheck disable=SC2086
compile_parts "$objects" "$(list_parts "$sets" test/kernels-test:)" \
  -O0 -g1 -std=c++17 $warnings -fno-math-errno -ffp-contract=off -fsanitize=address,undefined \
  -fno-sanitize-recover=all -I .
"$compiler" -fsanitize=address,undefined "$objects"/*.o -o "$objects/kernels-test"
echo "osiris: running the kernels under the sanitizers"
"$objects/kernels-test"
