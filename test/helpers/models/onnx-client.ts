// A client of an exported model, written only from packages/formats/docs/export.md and the file
// beside the model: it makes inputs of records by their rules, with its own hashes.

/** The JSON file beside a model. */
export interface InputRules {
  readonly dense: readonly {
    readonly at: number;
    readonly column: string;
    readonly log: boolean;
    readonly missing: 0 | "mean" | "indicator" | "reject";
    readonly mean?: number;
  }[];
  readonly features: readonly FeatureRules[];
  readonly vectors: {
    readonly tolerance: number;
    readonly records: readonly Readonly<Record<string, Value | readonly Value[]>>[];
    readonly inputs: Readonly<Record<string, readonly unknown[]>>;
    readonly logits: readonly (readonly number[])[];
    readonly predictions: readonly (readonly number[])[];
    readonly leftOut?: string;
  };
}

interface FeatureRules {
  readonly feature: string;
  readonly column: string;
  readonly input: string;
  readonly rows: number;
  readonly notRaw?: string;
  readonly id: {
    readonly kind: "hash" | "integer" | "raw";
    readonly seed: number;
    readonly bits: 32 | 64;
    readonly offset: number;
    readonly beyond?: "reject" | "clamp" | "hash";
  };
  readonly weighted: boolean;
  readonly weightSeparator?: string;
  readonly missing: "own" | "empty" | "reject";
}

type Value = string | number | null;

/** The model inputs of records, in the form of the test vectors. */
export function inputsByRules(
  { dense, features }: InputRules,
  records: InputRules["vectors"]["records"],
): Record<string, unknown[]> {
  const inputs: Record<string, unknown[]> = {};
  if (dense.length > 0) {
    inputs.dense = records.map((record) => {
      const values: number[] = [];
      for (const { at, column, log, missing, mean = Number.NaN } of dense) {
        const value = record[column];
        if (typeof value === "number") {
          values[at] = Math.fround(log ? Math.log1p(Math.max(value, 0)) : value);
        } else values[at] = missing === "mean" ? Math.fround(mean) : 0;
        if (missing === "indicator") values[at + 1] = typeof value === "number" ? 0 : 1;
      }
      return values;
    });
  }
  for (const rules of features) {
    const { feature, column, input, weighted, weightSeparator, missing } = rules;
    const bags = records.map((record) => {
      const value = record[column] ?? [];
      return (typeof value === "object" ? value : [value]).map(String);
    });
    const ids: unknown[] = [];
    const weights: number[] = [];
    inputs[`${feature}.lengths`] = bags.map((bag) => {
      for (const entry of bag) {
        const at = weightSeparator === undefined ? -1 : entry.lastIndexOf(weightSeparator);
        const id = at < 0 ? entry : entry.slice(0, at);
        ids.push(input.endsWith(".ids") ? givenOf(id, rules) : rowOf(id, rules));
        weights.push(at < 0 ? 1 : Number(entry.slice(at + 1)));
      }
      if (bag.length > 0 || missing !== "own") return bag.length;
      weights.push(1);
      return ids.push(0) - ids.length + 1;
    });
    inputs[input] = ids;
    if (weighted) inputs[`${feature}.weights`] = weights;
  }
  return inputs;
}

/** A 64-bit id, as text. */
function givenOf(text: string, rules: FeatureRules): string {
  return String(rules.id.kind === "raw" ? BigInt(text) : wholeOf(text, rules));
}

function wholeOf(text: string, { id: { offset } }: FeatureRules): bigint {
  return BigInt(text) - BigInt(offset);
}

function rowOf(text: string, rules: FeatureRules): number {
  const { rows, id } = rules;
  if (id.kind === "hash") return 1 + (murmur3(Buffer.from(text, "utf8"), id.seed) % (rows - 1));
  const own = wholeOf(text, rules);
  if (own >= 0n && own < BigInt(rows)) return Number(own);
  if (id.beyond === "clamp") return own < 0n ? 0 : rows - 1;
  const mixed = id.bits === 64 ? fmix64(BigInt.asUintN(64, own)) : BigInt(fmix32(Number(own)));
  return Number(mixed % BigInt(rows));
}

/** MurmurHash3_x86_32 from Austin Appleby's MurmurHash3.cpp. */
function murmur3(bytes: Uint8Array, seed: number): number {
  const rotated = (x: number, by: number) => (x << by) | (x >>> (32 - by));
  const scrambled = (k: number) => Math.imul(rotated(Math.imul(k, 0xcc9e_2d51), 15), 0x1b87_3593);
  let h = seed;
  let at = 0;
  for (; at + 4 <= bytes.length; at += 4) {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(at, at + 4);
    h ^= scrambled(a | (b << 8) | (c << 16) | (d << 24));
    h = (Math.imul(rotated(h, 13), 5) + 0xe654_6b64) | 0;
  }
  const [a = 0, b = 0, c = 0] = bytes.subarray(at);
  if (at < bytes.length) h ^= scrambled(a | (b << 8) | (c << 16));
  return fmix32(h ^ bytes.length);
}

function fmix32(of: number): number {
  let h = of;
  h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function fmix64(of: bigint): bigint {
  let k = of;
  k = BigInt.asUintN(64, (k ^ (k >> 33n)) * 0xff51_afd7_ed55_8ccdn);
  k = BigInt.asUintN(64, (k ^ (k >> 33n)) * 0xc4ce_b9fe_1a85_ec53n);
  return k ^ (k >> 33n);
}
