#!/bin/sh
# Builds native/build/osiris.node, only when a source is newer or an instruction set is missing.
# Prints its progress on stdout, and the compiler's errors on stderr. Without a compiler of C++17 it
# prints a message and exits with success: the prebuilt or the reference kernels are used then.
#
#   sh native/build.sh [--sets SETS] [--to FILE]
#
# SETS: `native`, the sets that this processor runs (the default); `all`; or names, as "portable
# avx2". FILE: the addon to write. OSIRIS_SETS has the effect of --sets. CXX names the compiler
# (default: g++, else c++ or clang++), OSIRIS_JOBS the number of parts compiled at the same time
# (default: one per core). OSIRIS_VERBOSE=1 prints every command.
set -eu
wanted=${OSIRIS_SETS:-}
addon=
while [ $# -gt 0 ]; do
  case $1 in
    --sets) wanted=$2 ;;
    --to) addon=$(mkdir -p "$(dirname "$2")" && cd "$(dirname "$2")" && pwd)/$(basename "$2") ;;
    *) echo "osiris: build.sh does not know $1" >&2; exit 2 ;;
  esac
  shift 2
done
cd "$(dirname "$0")"
: "${addon:=build/osiris.node}"
record=${addon%.node}.sets # file that lists the sets of the addon
compiler=${CXX:-$(command -v g++ || command -v c++ || command -v clang++ || echo g++)}
. ./parts.sh
# Compiles a line, as g++ of a Mac without the command line tools is a program that always fails.
has_compiler() { echo '#include <string_view>' | "$compiler" -std=c++17 -fsyntax-only -x c++ -; }
if [ -f "$addon" ]; then
  newer=$(find . -path ./build -prune -o -type f \( -name '*.cc' -o -name '*.h' -o -name '*.sh' \) \
    ! -name sanitize.sh ! -name package.sh ! -name cross.sh ! -path './test/*' -newer "$addon" -print)
  if [ -z "$newer" ]; then
    has_compiler 2>/dev/null || exit 0
    sets=$(choose_sets "$wanted")
    are_among "$(cat "$record" 2>/dev/null)" "$sets" && exit 0
  fi
fi
if ! said=$(has_compiler 2>&1); then
  echo "osiris: there is no C++ compiler ($(echo "$said" | head -n 1)): the kernels are not compiled." \
    "Install g++ (on macOS: xcode-select --install), or name another compiler in CXX" >&2
  exit 0
fi
# Resolved from the package's own folder, so that node_modules of an outer project work too.
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
link=-pthread
[ "$(uname)" != Darwin ] || link="$link -undefined dynamic_lookup"
# A prebuilt addon is stripped: to debug a kernel, build it.
[ "$addon" = build/osiris.node ] || [ "$(uname)" = Darwin ] || link="$link -s"
mkdir -p build
objects=build/objects.$$
built=$addon.$$.tmp
trap 'rm -rf "$objects" "$built"' EXIT
mkdir "$objects"
started=$(date +%s)
sets=$(choose_sets "$wanted")
parts=$(list_parts "$sets" bindings/addon:)
echo "osiris: compiling the kernels with $("$compiler" --version 2>/dev/null | head -n 1)"
# shellcheck disable=SC2086,SC2116
echo "osiris: $(echo "$parts" | wc -w | tr -d ' ') parts, for $(echo $sets), on $(count_cores) cores"
# Warnings are errors in CI (sanitize.sh), but not for a user with another compiler.
# No fused multiply-add except where the source has one, and no reordering as by -ffast-math.
compile_parts "$objects" "$parts" \
  -O3 -fPIC -std=c++17 -pthread -fno-math-errno -ffp-contract=off -fvisibility=hidden -I . -I "$headers"
tell_command "$compiler" -shared "$objects/*.o" -o "$built" "$link"
# shellcheck disable=SC2086
"$compiler" -shared "$objects"/*.o -o "$built" $link
# The rename is atomic: a process that loads the addon meanwhile gets the old file or the new one.
mv "$built" "$addon"
echo "$sets" >"$record"
echo "osiris: compiled and linked the kernels in $(($(date +%s) - started)) s"
