// Permutes the columns of a dense parameter into another program's order.

/**
 * The bytes of `values`, permuted: column c of the result is column `columns[c]` of `values`.
 * Without `columns`, the bytes unchanged.
 */
export function inTheirOrder(
  { buffer, byteOffset, byteLength, length }: Float32Array,
  columns: Int32Array | undefined,
): Uint8Array {
  if (columns === undefined) return new Uint8Array(buffer, byteOffset, byteLength);
  // Copied as integers, so that the bits of a NaN do not change.
  const [from, to] = [new Uint32Array(buffer, byteOffset, length), new Uint32Array(length)];
  for (let row = 0; row < length; row += columns.length) {
    for (const [there, here] of columns.entries()) to[row + there] = from[row + here] ?? 0;
  }
  return new Uint8Array(to.buffer);
}
