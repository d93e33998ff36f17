#!/bin/sh
# Builds native/build/osiris.node, only when a source is newer. Without a compiler it says so and
# ends well: the reference kernels are used. CXX names another compiler.
set -eu
cd "$(dirname "$0")"
addon=build/osiris.node
if [ -f "$addon" ]; then
  newer=$(find . -path ./build -prune -o -type f \( -name '*.cc' -o -name '*.h' -o -name build.sh \) \
    -newer "$addon" -print)
  [ -n "$newer" ] || exit 0
fi
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: there is no C++ compiler ($compiler); using the reference kernels, which are slow"
  exit 0
fi
# Looked up from the package, so that it is found in another project's node_modules too.
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
link=
[ "$(uname)" != Darwin ] || link="-undefined dynamic_lookup"
mkdir -p build
built=build/osiris.$$.tmp
trap 'rm -f "$built"' EXIT
# Warnings stop CI (sanitize.sh), not a user with another compiler.
# No fused multiply-add but where the source says so, and none of the liberties of -ffast-math.
# shellcheck disable=SC2086
"$compiler" -O3 -shared -fPIC -std=c++17 -fno-math-errno -ffp-contract=off -fvisibility=hidden \
  -I . -I "$headers" kernels.cc -o "$built" $link
# Whoever loads the addon meanwhile sees the old one or the new one, whole.
mv "$built" "$addon"
echo "osiris: built native/$addon"
