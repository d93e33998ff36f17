# The parts of the addon, and how they are compiled side by side. Sourced by build.sh and
# sanitize.sh in native/, with `compiler` set.

# The instruction sets that the compiler knows.
instruction_sets() {
  "$compiler" -E -P -x c++ - <<'SETS'
portable
#if defined(__x86_64__)
avx2 avx512
#if defined(__clang__) || __GNUC__ >= 11
avx512bf16
#endif
#endif
SETS
}

# SOURCE:SET of every part except kernels.cc and the bindings. The slowest to compile come first, so
# that all cores end at the same time.
list_parts() {
  for source in embedding/update embedding/lookup dense/dense blocks/blocks exchange/exchange tiers/tiers; do
    for set in $1; do
      # avx512bf16 is avx512 with other products.
      [ "$set" = avx512bf16 ] && [ "$source" != dense/dense ] || echo "$source:$set"
    done
  done
}

# The number of cores: by default, one part is compiled on each.
count_cores() {
  nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}

# compile_parts FOLDER PARTS FLAG...: puts an object into FOLDER for each part. Reports its progress
# every two seconds. If the compiler fails, it fails, once running compilations are done.
compile_parts() {
  folder=$1
  parts=$2
  shift 2
  total=$(echo "$parts" | wc -w | tr -d ' ')
  for set in $sets; do set -- "$@" "-DOSIRIS_HAS_$set"; done
  workers=
  while [ "$(echo "$workers" | wc -w)" -lt "${OSIRIS_JOBS:-$(count_cores)}" ]; do
    compile_next "$@" &
    workers="$workers $!"
  done
  show_progress &
  ticker=$!
  trap 'kill $workers $ticker 2>/dev/null; exit 130' INT TERM
  failed=0
  for worker in $workers; do wait "$worker" || failed=1; done
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$failed"
}

# Compiles parts that no other worker has claimed, until none is left. A worker claims a part by
# making a folder, as only one worker can make it.
compile_next() {
  for part in $parts; do
    name=$(echo "$part" | tr /: --)
    mkdir "$folder/$name.taken" 2>/dev/null || continue
    tell_command "$compiler" "$@" "-DOSIRIS_ISA=${part#*:}" -c "${part%:*}.cc"
    # In the background, because a shell in `wait` handles a signal at once.
    "$compiler" "$@" "-DOSIRIS_ISA=${part#*:}" -c "${part%:*}.cc" -o "$folder/$name.tmp" &
    compiling=$!
    trap 'kill "$compiling" 2>/dev/null; exit 1' TERM
    wait "$compiling" || return 1
    mv "$folder/$name.tmp" "$folder/$name.o"
  done
}

# With OSIRIS_VERBOSE=1: prints a command that is about to run.
tell_command() {
  [ -z "${OSIRIS_VERBOSE:-}" ] || echo "osiris: $*"
}

show_progress() {
  seconds=0
  while :; do
    sleep 2 >/dev/null 2>&1
    seconds=$((seconds + 2))
    done=0
    doing=
    for part in $parts; do
      name=$(echo "$part" | tr /: --)
      if [ -f "$folder/$name.o" ]; then
        done=$((done + 1))
      elif [ -d "$folder/$name.taken" ]; then
        doing="$doing ${part%:}"
      fi
    done
    echo "osiris: compiling the kernels: $done of $total parts, $seconds s; now$doing"
  done
}
