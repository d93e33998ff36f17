// Hashes and rows of 64-bit ids, computed with bigints: the tests' reference.

const mask = 2n ** 64n - 1n;

/** MurmurHash3's 64-bit finaliser (fmix64), as published. */
export function mix64(value: bigint): bigint {
  let bits = value & mask;
  bits = ((bits ^ (bits >> 33n)) * 0xff51_afd7_ed55_8ccdn) & mask;
  bits = ((bits ^ (bits >> 33n)) * 0xc4ce_b9fe_1a85_ec53n) & mask;
  return bits ^ (bits >> 33n);
}

/** The row of an id under a policy that refuses no id. */
export function rowOf(id: bigint, rows: number, policy: "clamp" | "hash"): number {
  if (id >= 0n && id < BigInt(rows)) return Number(id);
  if (policy === "hash") return Number(mix64(id) % BigInt(rows));
  return id < 0n ? 0 : rows - 1;
}

/** The halves of an id, lower first. */
export function halvesOf(id: bigint): [number, number] {
  return [Number(BigInt.asIntN(32, id)), Number(id >> 32n)];
}

/** Ids at which errors with halves, signs or float64 would show. */
export const edges: readonly bigint[] = [
  0n,
  -1n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n + 1n,
  -(2n ** 53n) - 1n,
  1234567890123456789n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  -(2n ** 32n) + 3n,
];
