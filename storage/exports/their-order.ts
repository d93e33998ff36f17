// The numbers of a dense parameter in the order of columns that another program has.

/** The bytes of `values`; column c there is column `columns[c]` here. Left out: as they are. */
export function inTheirOrder(
  { buffer, byteOffset, byteLength, length }: Float32Array,
  columns: Int32Array | undefined,
): Uint8Array {
  if (columns === undefined) return new Uint8Array(buffer, byteOffset, byteLength);
  // Copied as bits: a NaN stays the NaN that it is.
  const [from, to] = [new Uint32Array(buffer, byteOffset, length), new Uint32Array(length)];
  for (let row = 0; row < length; row += columns.length) {
    for (const [there, here] of columns.entries()) to[row + there] = from[row + here] ?? 0;
  }
  return new Uint8Array(to.buffer);
}
