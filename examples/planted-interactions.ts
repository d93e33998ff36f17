// Generates samples, as a CSV file, whose true logit is a sum of interactions of 2, 3 and 4
// features, so that the best possible log loss is known.
//
//   logit = scale / sqrt(terms) * sum over terms m of product over f in S_m of v_m,f(id of f)
//   label ~ Bernoulli(sigmoid(logit))
//
// Each S_m is a random set of features. Each id of a feature has `latents` normal numbers; v_m,f is
// their dot product with a direction w_m shared by the features of the term, scaled over the ids to
// the mean `mean` and the variance 1 - mean². As the mean is not 0, a term of order 4 also has
// small effects of lower order, like interactions in real data; without them, gradients could not
// find it. Ids are uniform.

import { closeSync, openSync, writeSync } from "node:fs";

/** Names of the feature columns. */
export const columns: readonly string[] = Array.from({ length: 12 }, (_, i) => `f${i}`);
/** Number of ids per feature. */
export const idsOfFeature = 12;

const orders = [2, 3, 4];
const termsOfOrder = 6;
const latents = 4;
const mean = 0.5;
const scale = 2.5;
/** Seed of the true interactions, the same for all files of samples. */
const truthSeed = 1;

interface Term {
  readonly features: readonly number[];
  /** Per feature of the term, the value v_m,f of each id. */
  readonly values: readonly Float64Array[];
}

/** Reference losses of a file of samples. */
export interface FileReport {
  /** Mean entropy of the labels, given all features: the log loss of the truth. */
  readonly bestLogLoss: number;
  /** Log loss of predicting the share of positives for every sample. */
  readonly constantLogLoss: number;
}

/** Writes `samples` samples, a function of `seed`. */
export function writeSamples(path: string, samples: number, seed: number): FileReport {
  const terms = drawTerms();
  const random = uniforms(seed);
  const ids = columns.map(() => 0);
  const file = openSync(path, "w");
  let text = `${["label", ...columns].join(",")}\n`;
  let [entropy, positives] = [0, 0];
  for (let i = 0; i < samples; i++) {
    for (let f = 0; f < ids.length; f++) ids[f] = Math.floor(random() * idsOfFeature);
    const p = 1 / (1 + Math.exp(-logitOf(terms, ids)));
    const label = random() < p ? 1 : 0;
    entropy += entropyOf(p);
    positives += label;
    text += `${label},${ids.join(",")}\n`;
    if (text.length < 1 << 16) continue;
    writeSync(file, text);
    text = "";
  }
  writeSync(file, text);
  closeSync(file);
  return { bestLogLoss: entropy / samples, constantLogLoss: entropyOf(positives / samples) };
}

function entropyOf(p: number): number {
  return -(p * Math.log(p) + (1 - p) * Math.log(1 - p));
}

function drawTerms(): Term[] {
  const random = uniforms(truthSeed);
  const ids = Array.from({ length: idsOfFeature });
  const latent = columns.map(() => ids.map(() => normals(random, latents)));
  return orders.flatMap((order) =>
    Array.from({ length: termsOfOrder }, (): Term => {
      const own = new Set<number>();
      while (own.size < order) own.add(Math.floor(random() * columns.length));
      const features = [...own];
      const direction = normals(random, latents);
      const values = features.map((f) => scaled(latent[f]?.map((of) => dot(of, direction)) ?? []));
      return { features, values };
    }),
  );
}

/** Scales numbers to the mean `mean` and the variance 1 - mean². */
function scaled(numbers: readonly number[]): Float64Array {
  const average = numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
  const squares = numbers.reduce((sum, one) => sum + (one - average) ** 2, 0) / numbers.length;
  const spread = Math.sqrt((1 - mean ** 2) / squares);
  return Float64Array.from(numbers, (one) => mean + spread * (one - average));
}

function logitOf(terms: readonly Term[], ids: readonly number[]): number {
  let logit = 0;
  for (const { features, values } of terms) {
    let product = 1;
    for (const [k, f] of features.entries()) product *= values[k]?.[ids[f] ?? 0] ?? 0;
    logit += product;
  }
  return (scale * logit) / Math.sqrt(terms.length);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, one, i) => sum + one * (b[i] ?? 0), 0);
}

/** Normal numbers, by Box and Muller's method. */
function normals(random: () => number, count: number): number[] {
  return Array.from({ length: count }, () => {
    return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  });
}

/** A generator of uniform numbers in [0, 1): "mulberry32". */
function uniforms(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b9);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
