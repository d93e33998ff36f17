// Shrinks the faults of a failing run to a minimal failing subset by delta debugging (Zeller and
// Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002, section 3.2).

/**
 * A 1-minimal failing subset of `faults`, in order: without any one of its faults it no longer
 * fails. `fails` runs a subset and returns whether it fails; no subset is run twice. If failures
 * are flaky, the result may be larger than minimal, but it has failed.
 * @throws Error where `faults` as a whole do not fail
 */
export async function shrink<Fault>(
  faults: readonly Fault[],
  fails: (part: readonly Fault[]) => boolean | Promise<boolean>,
): Promise<Fault[]> {
  const known = new Map<string, boolean>();
  const doesFail = async (places: readonly number[]): Promise<boolean> => {
    const key = places.join();
    const failed = known.get(key) ?? (await fails(places.map((i) => faults[i] as Fault)));
    known.set(key, failed);
    return failed;
  };
  let left = faults.map((_, i) => i);
  if (!(await doesFail(left))) {
    throw new Error(
      "The whole schedule does not fail, so there is nothing to shrink: run it again",
    );
  }
  if (await doesFail([])) return []; // The run fails without faults.
  let pieces = 2;
  while (left.length > 1) {
    const smaller = await firstFailing(cuts(left, pieces), doesFail);
    if (smaller !== undefined) {
      pieces = smaller.length > left.length / 2 ? Math.max(pieces - 1, 2) : 2;
      left = smaller;
    } else if (pieces < left.length) pieces = Math.min(pieces * 2, left.length);
    else break;
  }
  return left.map((i) => faults[i] as Fault);
}

/** Each piece of `places` alone, then the complement of each: the largest simplification first. */
function cuts(places: readonly number[], pieces: number): number[][] {
  const bounds = Array.from({ length: pieces + 1 }, (_, i) =>
    Math.floor((i * places.length) / pieces),
  );
  const alone = bounds.slice(1).map((end, i) => places.slice(bounds[i], end));
  const without = alone.map((piece) => places.filter((place) => !piece.includes(place)));
  return pieces === 2 ? alone : [...alone, ...without];
}

async function firstFailing(
  parts: readonly number[][],
  doesFail: (part: readonly number[]) => Promise<boolean>,
): Promise<number[] | undefined> {
  for (const part of parts) if (await doesFail(part)) return part;
  return undefined;
}
