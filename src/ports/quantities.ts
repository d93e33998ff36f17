// Quantities as people write them: `40GB`, `200Gb/s`, `19.5TFLOP/s`, `5us`. One parser for options
// of commands and for files.

/** The kinds of quantities: each unit, and how many of it make one of the kind's base unit. */
const units = {
  bytes: { "": 1, b: 1 },
  // A lower-case b is a bit.
  "bytes per second": { "B/s": 1, "b/s": 8 },
  "operations per second": { "FLOP/s": 1 },
  seconds: { s: 1, ms: 1e3, us: 1e6, ns: 1e9 },
} as const;

export type Quantity = keyof typeof units;

/** An example of each kind, for messages. */
const examples: Readonly<Record<Quantity, string>> = {
  bytes: "16000000000, 16GB or 16GiB",
  "bytes per second": "12.4TB/s or 200Gb/s",
  "operations per second": "19.5TFLOP/s",
  seconds: "5us or 0.2ms",
};

const prefixes: Readonly<Record<string, number>> = {
  ...{ "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12, p: 1e15 },
  ...{ ki: 2 ** 10, mi: 2 ** 20, gi: 2 ** 30, ti: 2 ** 40, pi: 2 ** 50 },
};

/** The expected form of a value of this kind, for a message. */
export function quantityExpected(kind: Quantity): string {
  return `${kind} > 0, as in ${examples[kind]}`;
}

/** Parses a text to a number in the kind's base unit; undefined: it is no quantity above 0. */
export function quantityIn(text: string, kind: Quantity): number | undefined {
  const [, digits = "", written = ""] = /^([\d.]+)\s*(\D*)$/.exec(text.trim()) ?? [];
  // The kind `bytes` has no bits, so that both cases of its letters mean the same.
  const unit = kind === "bytes" ? written.toLowerCase() : written;
  for (const [name, parts] of Object.entries(units[kind])) {
    if (!unit.endsWith(name)) continue;
    const prefix = unit.slice(0, unit.length - name.length).toLowerCase();
    const scale = kind === "seconds" && prefix !== "" ? undefined : prefixes[prefix];
    const value = (Number(digits) * (scale ?? Number.NaN)) / parts;
    if (digits !== "" && Number.isFinite(value) && value > 0) return value;
  }
  return undefined;
}
