// Finds the name that a user probably meant by a misspelled name, for "did you mean" messages.

/** Most characters of a name that are compared, as the time grows with the square of the length. */
const lengthMax = 100;

/**
 * The name nearest to `wrong`, ignoring case, `_`, `-` and spaces, with at most a third of its
 * characters edited; undefined if no name is near. Among equally near names, the first.
 */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const plain = plainOf(wrong);
  let best: string | undefined;
  let bestEdits = Math.floor(plain.length / 3) + 1;
  for (const name of names) {
    const edits = editsBetween(plain, plainOf(name), bestEdits);
    if (edits < bestEdits) [best, bestEdits] = [name, edits];
  }
  return best;
}

function plainOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/[\s_-]/g, "")
    .slice(0, lengthMax);
}

/** Edit distance: characters to insert, delete, replace or swap with their neighbour; capped. */
function editsBetween(one: string, other: string, editsMax: number): number {
  if (Math.abs(one.length - other.length) >= editsMax) return editsMax;
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, j) => j);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      const replaced = (last[j - 1] ?? 0) + (isSame ? 0 : 1);
      let edits = Math.min(replaced, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) {
        edits = Math.min(edits, (before[j - 2] ?? 0) + 1);
      }
      row.push(edits);
    }
    [before, last] = [last, row];
  }
  return last[other.length] ?? 0;
}
