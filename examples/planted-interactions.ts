// Samples whose truth is a sum of interactions of 2, 3 and 4 features, as a CSV file: what a model
// can reach at best is known.
//
//   logit = scale / sqrt(terms) * sum over terms m of product over f in S_m of v_m,f(id of f)
//   label ~ Bernoulli(sigmoid(logit))
//
// Each S_m is a random set of features. An id of a feature has `latents` normal numbers; v_m,f is
// their product with a direction w_m that the features of the term share, over the ids of variance
// 1 - mean² around `mean`. As the mean is not 0, a term of order 4 shows a little in lower orders,
// as interactions of real data do: else no gradient would lead to it. Ids are uniform.

import { closeSync, openSync, writeSync } from "node:fs";

/** The columns of the features. */
export const columns: readonly string[] = Array.from({ length: 12 }, (_, i) => `f${i}`);
/** Ids of each feature. */
export const idsOfFeature = 12;

const orders = [2, 3, 4];
const termsOfOrder = 6;
const latents = 4;
const mean = 0.5;
const scale = 2.5;
/** The truth is one, whatever samples are drawn of it. */
const truthSeed = 1;

interface Term {
  readonly features: readonly number[];
  /** Of each of these features, the number of each id. */
  readonly values: readonly Float64Array[];
}

/** What a file of samples is like. */
export interface FileReport {
  /** Mean entropy of the labels, given all features: the log loss of the truth. */
  readonly bestLogLoss: number;
  /** Log loss of a model that knows the share of positives alone. */
  readonly constantLogLoss: number;
}

/** Writes so many samples, a function of the seed. */
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

/** The numbers with the mean of all terms, and the variance beside it. */
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

/** Box and Muller's. */
function normals(random: () => number, count: number): number[] {
  return Array.from({ length: count }, () => {
    return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  });
}

/** Numbers in [0, 1): the generator "mulberry32". */
function uniforms(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b9);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
