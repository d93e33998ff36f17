#!/bin/sh
# Fails if a shipped addon needs a newer C or C++ library than the oldest system that the package
# supports: GLIBC 2.26, GLIBCXX 3.4.21 (RHEL 8, Ubuntu 18.04, Debian 10 and newer). readelf reads the
# files of every architecture.
set -eu
for addon in "$@"; do
  needed=$(readelf -W --version-info "$addon" | grep -oE '(GLIBC|GLIBCXX|CXXABI|GCC)_[0-9.]+' | sort -u)
  echo "$addon needs" $needed
  echo "$needed" | grep -q '^GLIBC_' || { echo "$addon: its symbols cannot be read" >&2; exit 1; }
  for limit in GLIBC_2.26 GLIBCXX_3.4.21; do
    newest=$(printf '%s\n' "$limit" $(echo "$needed" | grep "^${limit%%_*}_") | sort -V | tail -n 1)
    [ "$newest" = "$limit" ] || { echo "$addon needs $newest: newer than $limit" >&2; exit 1; }
  done
done
