# The parts of the addon, and how they are compiled side by side. Sourced by build.sh and
# sanitize.sh in native/, with `compiler` set.

# The instruction sets that the compiler knows.
instruction_sets() {
  "$compiler" -E -P -x c++ - <<'SETS'
#if defined(__x86_64__)
portable avx2 avx512
#if defined(__clang__) || __GNUC__ >= 11
avx512bf16
#endif
#elif defined(__aarch64__)
neon
#else
portable
#endif
SETS
}

# choose_sets WANTED: `all` that the compiler knows, `native` or blanks for those that this processor
# runs, or names. `native` means `all` where the processor cannot be probed, as by a cross compiler.
choose_sets() {
  case $(echo $1) in
    all) instruction_sets ;;
    native | "") sets_of_processor || instruction_sets ;;
    *)
      known=$(instruction_sets)
      if ! are_among "portable $known" "$1"; then
        are_among "$known" portable || known="portable $known"
        echo "osiris: OSIRIS_SETS names $1: $compiler compiles" $known >&2
        return 2
      fi
      echo "$1"
      ;;
  esac
}

# The best set of this processor, and the set that it builds on. The compiled probe is kept, as each
# start of a clone runs it.
sets_of_processor() {
  mkdir -p build
  probe=build/probe
  if [ ! -f "$probe" ] || [ -n "$(find probe.cc simd/processor.h -newer "$probe" 2>/dev/null)" ]; then
    "$compiler" -std=c++17 -I . probe.cc -o "$probe.$$" >/dev/null 2>&1 || return 1
    mv "$probe.$$" "$probe"
  fi
  "./$probe" 2>/dev/null
}

# The sets that this processor can run, from portable code to the best.
runnable_sets() {
  known=$(echo $(instruction_sets))
  best=$(sets_of_processor) || best=$known
  best=${best##* }
  echo "${known%%"$best"*}$best"
}

# are_among SETS SOME: whether SETS has all of SOME.
are_among() {
  for set in $2; do
    case " $(echo $1) " in *" $set "*) ;; *) return 1 ;; esac
  done
}

# list_parts SETS OTHER: SOURCE:SET of every part, and the part OTHER. The slowest to compile come
# first, so that all cores end at the same time.
list_parts() {
  for source in embedding/lookup embedding/update dense/dense embedding/held-update blocks/blocks; do
    for set in $1; do
      # avx512bf16 differs from avx512 only in the products.
      [ "$set" = avx512bf16 ] && [ "$source" != dense/dense ] || echo "$source:$set"
    done
  done
  echo "$2"
  for source in exchange/exchange tiers/tiers; do
    for set in $1; do [ "$set" = avx512bf16 ] || echo "$source:$set"; done
  done
  echo kernels:
  echo links/links:
  echo threads/pool:
  echo threads/threads:
}

count_cores() {
  nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}

# compile_parts FOLDER PARTS FLAG...: puts an object into FOLDER for each part. Reports its progress
# every two seconds. If the compiler fails, it fails too, after the running compilations.
compile_parts() {
  folder=$1
  parts=$2
  shift 2
  total=$(echo "$parts" | wc -w | tr -d ' ')
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
    defined=-DOSIRIS_ISA=${part#*:}
    # Only kernels.cc depends on the other sets: other parts have the same object in every build.
    [ "$part" != kernels: ] || defined=$(for set in $sets; do echo "-DOSIRIS_HAS_$set"; done)
    # shellcheck disable=SC2086
    tell_command "$compiler" "$@" $defined -c "${part%:*}.cc"
    # In the background, because a shell in `wait` handles a signal at once.
    # shellcheck disable=SC2086
    "$compiler" "$@" $defined -c "${part%:*}.cc" -o "$folder/$name.tmp" &
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
