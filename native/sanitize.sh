#!/bin/sh
# Runs the kernels on random shapes under the address and undefined-behaviour sanitizers. Fails
# where one of them complains or a number is wrong. Without a compiler it says so and ends well.
set -eu
cd "$(dirname "$0")"
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: there is no C++ compiler ($compiler); the kernels were not sanitized"
  exit 0
fi
mkdir -p build
test=build/kernels-test.$$
trap 'rm -f "$test"' EXIT
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
"$compiler" -fsyntax-only -std=c++17 -Wall -Wextra -Werror -I . -I "$headers" kernels.cc
# Unoptimized, with lines alone of the debugger's tables: compiled in a third of the time.
"$compiler" -O0 -g1 -std=c++17 -Wall -Wextra -Werror -fno-math-errno -ffp-contract=off \
  -fsanitize=address,undefined -fno-sanitize-recover=all -I . test/kernels-test.cc -o "$test"
"$test"
