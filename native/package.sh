#!/bin/sh
# Makes prebuilds/linux-x64/osiris.node and prebuilds/linux-arm64/osiris.node, the kernels that the
# package ships: all instruction sets, stripped. `npm pack` calls it. The other architecture's
# compiler is Debian's (g++-aarch64-linux-gnu, g++-x86-64-linux-gnu); without it a message says that
# the package lacks these kernels. On other systems: the kernels of the system itself. Tests name
# fewer sets for this architecture in PACKAGE_SETS.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
own=${PACKAGE_SETS:-all}

# prebuild NAME COMPILER [SETS]
prebuild() {
  if ! command -v "$2" >/dev/null 2>&1; then
    rm -rf "$root/prebuilds/$1"
    echo "osiris: there is no $2: the package has no kernels for $1" >&2
    return
  fi
  CXX=$2 sh "$root/native/build.sh" --sets "${3:-all}" --to "$root/prebuilds/$1/osiris.node"
}

case $(uname)-$(uname -m) in
  Linux-x86_64)
    prebuild linux-x64 "${CXX:-g++}" "$own"
    prebuild linux-arm64 aarch64-linux-gnu-g++
    ;;
  Linux-aarch64)
    prebuild linux-arm64 "${CXX:-g++}" "$own"
    prebuild linux-x64 x86_64-linux-gnu-g++
    ;;
  *) prebuild "$(node -p 'process.platform + "-" + process.arch')" "${CXX:-g++}" "$own" ;;
esac
