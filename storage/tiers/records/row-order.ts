// Sorts rows, because record stores expect ascending rows.

/** The permutation that sorts the rows; undefined: they are ascending. At most 2^21 rows. */
export function ascending(rows: Int32Array): Int32Array | undefined {
  let isSorted = true;
  for (let i = 1; i < rows.length && isSorted; i++) isSorted = (rows[i - 1] ?? 0) < (rows[i] ?? 0);
  if (isSorted) return undefined;
  // Packs row and index into one number, so that sorting needs no comparison function.
  const places = 2 ** 21;
  const keys = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) keys[i] = (rows[i] ?? 0) * places + i;
  keys.sort();
  const order = new Int32Array(rows.length);
  for (let i = 0; i < rows.length; i++) order[i] = (keys[i] ?? 0) % places;
  return order;
}

/** Gathers the elements at the indices `places`. */
export function at(from: Int32Array, places: Int32Array): Int32Array {
  const out = new Int32Array(places.length);
  for (let i = 0; i < places.length; i++) out[i] = from[places[i] ?? 0] ?? 0;
  return out;
}
