// Generated samples with a planted truth. Sample i is a function of (seed, i) alone, not of earlier
// draws. Ids are Zipf-distributed, dense features normal, and
//
//   logit = bias + sum over features of effect(id) + dense . weights
//           + sum over feature pairs (0,1), (2,3), … (four at most) of latent(id) . latent(id')
//   label ~ Bernoulli(sigmoid(logit)), or, where the label is a number, Normal(logit, 1/2)
//
// Of several labels, each has effects of its own, and the rest of its logit in common with the
// others. Weights of samples and their groups are drawn apart from all that.
//
// A bag counts as the mean of its ids, each multiplied by its weight where the feature has weights.
// To come near the best AUC, a model must learn every kind of term. The best AUC is the AUC of the
// true logit against the drawn labels.

import { expected } from "../../ports/check-options.ts";
import { type Key, keyOf, philox, purposes } from "../../ports/random.ts";
import {
  type BagLengths,
  idsOfFeature,
  type ResolvedSyntheticOptions,
  type TableShape,
} from "../options.ts";
import { bagIdsMax, Sample } from "../sample.ts";
import { areNumeric, groupOf, targetsOf } from "../targets.ts";
import { rankAuc } from "./rank-auc.ts";
import { Zipf } from "./zipf.ts";

/** The result of generating. */
export interface GeneratedReport {
  readonly samples: number;
  /** Samples with label 1: about a quarter. */
  readonly positives: number;
  /** AUC of the true logits against the drawn labels; NaN where the first label is a number. */
  readonly bestAuc: number;
  /** Where it is one: root of the mean squared difference of true logits and drawn labels. */
  readonly bestRmse?: number;
}

/**
 * Calls `take` with every sample in turn. The next sample reuses its memory. Needs 8 bytes per
 * sample in addition, for the best AUC.
 */
export function generateSamples(
  options: ResolvedSyntheticOptions,
  tables: readonly TableShape[],
  take: (sample: Sample) => void,
): GeneratedReport {
  const generator = new SyntheticSamples(options, tables);
  const targets = targetsOf(options);
  const sample = new Sample({ dense: options.dense, features: tables.length, targets });
  if (areNumeric(options)[0] === true) return generateNumbers(generator, options, sample, take);
  // Logits of positive samples fill the array from the left, of negatives from the right.
  const logits = new Float64Array(options.samples);
  let positives = 0;
  for (let index = 0; index < options.samples; index++) {
    const logit = generator.fill(sample, index);
    if (sample.label === 1) logits[positives++] = logit;
    else logits[options.samples - 1 - (index - positives)] = logit;
    take(sample);
  }
  const bestAuc = rankAuc(logits.subarray(0, positives), logits.subarray(positives));
  return { samples: options.samples, positives, bestAuc };
}

/** The same where the first label is a number, which is near the true logit. */
function generateNumbers(
  generator: SyntheticSamples,
  { samples }: ResolvedSyntheticOptions,
  sample: Sample,
  take: (sample: Sample) => void,
): GeneratedReport {
  let squares = 0;
  for (let index = 0; index < samples; index++) {
    const logit = generator.fill(sample, index);
    squares += (sample.label - logit) ** 2;
    take(sample);
  }
  return { samples, positives: 0, bestAuc: Number.NaN, bestRmse: Math.sqrt(squares / samples) };
}

const positiveShare = 0.25;
/** The bias is fitted on this many first samples, however many are generated. */
const fittedSamples = 4096;
const pairsMax = 4;
/** Numbers drawn for an id: its effect, then its latent vector. One Philox block. */
const idNumbers = 4;
/** Popular ids of each feature that keep their numbers: most lookups are of these. */
const keptIdsMax = 1024;
/** Ids of all features that keep their numbers: 8 MiB. */
const keptMax = 262_144;
/**
 * Approximate standard deviations of the logit's three parts: best AUCs come out at 0.8 to 0.85.
 */
const scales = { effects: 0.8, pairs: 1.1, dense: 0.7 };

/** Standard deviation of a label that is a number, around its true logit. */
const labelNoise = 0.5;

/** The samples of one seed, by index. */
export class SyntheticSamples {
  readonly #key: Key;
  /** Of each feature. */
  readonly #bags: readonly BagLengths[];
  readonly #isWeighted: boolean;
  readonly #samplers: readonly Zipf[];
  readonly #pairs: number;
  readonly #weights: Float64Array;
  readonly #hasSampleWeights: boolean;
  readonly #groups: number;
  /** Of each label, whether it is a number. */
  readonly #numeric: readonly boolean[];
  /** The effects of the bags of a sample, for each label after the first. */
  readonly #otherEffects: Float64Array;
  readonly #bias: number;
  readonly #words = new Uint32Array(4);
  readonly #normals = new Float64Array(4);
  /** (features, 4): for each feature, the mean of its bag's id numbers. */
  readonly #means: Float64Array;
  /** Of each feature, ids below this one have their numbers kept. */
  readonly #keptIds: number;
  /** (features · keptIds + 1, 4): the numbers of the kept ids, then of the last other id. */
  readonly #numbers: Float64Array;
  /** (features · keptIds): 1 once the id's numbers are drawn. */
  readonly #isDrawn: Uint8Array;

  constructor(options: ResolvedSyntheticOptions, tables: readonly TableShape[]) {
    this.#key = keyOf(options.seed);
    const unknown = Object.keys(options.perFeature ?? {}).find((name) => {
      return !tables.some((table) => table.name === name);
    });
    if (unknown !== undefined) {
      throw expected(
        "data.perFeature",
        "names of features: of tables, or of `model.features`",
        unknown,
      );
    }
    const ids = tables.map(({ name }) => idsOfFeature(options, name));
    this.#bags = ids.map(({ idsPerBag }) => idsPerBag);
    this.#hasSampleWeights = options.sampleWeights !== undefined;
    this.#groups = options.groups ?? 0;
    this.#numeric = areNumeric(options);
    this.#otherEffects = new Float64Array((options.labels ?? 1) - 1);
    this.#isWeighted = options.weights !== undefined;
    this.#samplers = tables.map(({ rows }, i) => new Zipf(rows, ids[i]?.zipf ?? options.zipf));
    this.#pairs = Math.min(pairsMax, Math.floor(tables.length / 2));
    this.#means = new Float64Array(tables.length * idNumbers);
    this.#keptIds = Math.min(keptIdsMax, Math.floor(keptMax / Math.max(1, tables.length)));
    this.#isDrawn = new Uint8Array(tables.length * this.#keptIds);
    this.#numbers = new Float64Array((this.#isDrawn.length + 1) * idNumbers);
    this.#weights = new Float64Array(options.dense);
    for (let i = 0; i < options.dense; i++) {
      this.#draw(i, 1, 0, purposes.syntheticTruth);
      this.#weights[i] = this.#spread(0) * (scales.dense / Math.sqrt(options.dense));
    }
    this.#bias = this.#fitBias(new Sample({ dense: options.dense, features: tables.length }));
  }

  /** Fills `sample` with the sample at `index`. Returns its true logit. */
  fill(sample: Sample, index: number): number {
    const logit = this.#bias + this.#score(sample, index);
    sample.label = this.#drawLabel(index, 0, logit);
    this.#fillTargets(sample, index, logit);
    return logit;
  }

  /** Draws the further labels, the weight and the group of a sample with this logit. */
  #fillTargets(sample: Sample, index: number, logit: number): void {
    const features = this.#samplers.length;
    for (const [i, effects] of this.#otherEffects.entries()) {
      sample.labels[1 + i] = this.#drawLabel(index, 1 + i, logit + effects);
    }
    if (this.#hasSampleWeights) sample.sampleWeight = this.#drawWeight(index, 0, features);
    if (this.#groups === 0) return;
    this.#draw(index, 0, features, purposes.syntheticIds);
    sample.group.set(groupOf(String(Math.floor(this.#uniform(0) * this.#groups))));
  }

  #drawLabel(index: number, label: number, logit: number): number {
    if (this.#numeric[label] === true) {
      this.#drawNormals(index, 0, label, purposes.syntheticLabel);
      return Math.fround(logit + labelNoise * (this.#normals[0] ?? 0));
    }
    this.#draw(index, 0, label, purposes.syntheticLabel);
    return this.#uniform(0) < sigmoid(logit) ? 1 : 0;
  }

  /** Draws dense features and ids; returns the logit without its bias. */
  #score(sample: Sample, index: number): number {
    sample.clear();
    let score = 0;
    this.#otherEffects.fill(0);
    for (let i = 0; i < sample.dense.length; i++) {
      if (i % 4 === 0) this.#drawNormals(index, i / 4, 0, purposes.syntheticDense);
      const value = Math.fround(this.#normals[i % 4] ?? 0);
      sample.dense[i] = value;
      score += value * (this.#weights[i] ?? 0);
    }
    for (let feature = 0; feature < this.#samplers.length; feature++) {
      this.#fillBag(sample, feature, index);
      const effect = this.#means[feature * idNumbers] ?? 0;
      const scale = scales.effects / Math.sqrt(this.#samplers.length);
      score += effect * scale;
      for (let i = 0; i < this.#otherEffects.length; i++) {
        const other = this.#means[feature * idNumbers + 1 + (i % (idNumbers - 1))] ?? 0;
        this.#otherEffects[i] = (this.#otherEffects[i] ?? 0) + (other - effect) * scale;
      }
    }
    for (let pair = 0; pair < this.#pairs; pair++) score += this.#dot(2 * pair, 2 * pair + 1);
    return score;
  }

  /** Draws the bag of one feature, and computes the mean of its ids' numbers. */
  #fillBag(sample: Sample, feature: number, index: number): void {
    const bag = this.#bags[feature];
    const sampler = this.#samplers[feature];
    if (sampler === undefined || bag === undefined) return;
    let drawn = 0;
    const uniform = (): number => {
      if (drawn % 2 === 0) this.#draw(index, drawn / 2, feature, purposes.syntheticIds);
      return this.#uniform(2 * (drawn++ % 2));
    };
    const length = lengthOf(bag, uniform);
    const first = sample.idCount;
    for (let i = 0; i < length; i++) sample.push(feature, sampler.draw(uniform));
    for (let i = 0; this.#isWeighted && i < length; i++) {
      sample.weights[first + i] = this.#drawWeight(index, i, feature);
    }
    const at = feature * idNumbers;
    this.#means.fill(0, at, at + idNumbers);
    for (let i = 0; i < length; i++) {
      const numbers = this.#numbersOf(feature, sample.ids[first + i] ?? 0);
      const weight = sample.weights[first + i] ?? 0;
      for (let n = 0; n < idNumbers; n++) {
        const number = this.#numbers[numbers + n] ?? 0;
        this.#means[at + n] = (this.#means[at + n] ?? 0) + (weight * number) / length;
      }
    }
  }

  /** Where the numbers of an id lie in `#numbers`, until the next call. */
  #numbersOf(feature: number, id: number): number {
    const isKept = id < this.#keptIds;
    const entry = isKept ? feature * this.#keptIds + id : this.#isDrawn.length;
    const at = entry * idNumbers;
    if (isKept && this.#isDrawn[entry] === 1) return at;
    this.#draw(id, 0, feature, purposes.syntheticTruth);
    for (let n = 0; n < idNumbers; n++) this.#numbers[at + n] = this.#spread(n);
    if (isKept) this.#isDrawn[entry] = 1;
    return at;
  }

  /** Uniform between 0 and 2. */
  #drawWeight(index: number, place: number, feature: number): number {
    this.#draw(index, place, feature, purposes.syntheticWeights);
    return 2 * this.#uniform(0);
  }

  #dot(left: number, right: number): number {
    let dot = 0;
    for (let n = 1; n < idNumbers; n++) {
      dot += (this.#means[left * idNumbers + n] ?? 0) * (this.#means[right * idNumbers + n] ?? 0);
    }
    return dot * (scales.pairs / Math.sqrt(this.#pairs * (idNumbers - 1)));
  }

  /** Finds, by bisection, the bias at which the wanted share of the first samples is positive. */
  #fitBias(sample: Sample): number {
    const scores = new Float64Array(fittedSamples);
    for (let index = 0; index < fittedSamples; index++) scores[index] = this.#score(sample, index);
    let low = -30;
    let high = 30;
    for (let halving = 0; halving < 40; halving++) {
      const middle = (low + high) / 2;
      let share = 0;
      for (const score of scores) share += sigmoid(score + middle) / fittedSamples;
      if (share < positiveShare) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  /** Draws four random words for the counter (index, block, lane, purpose). */
  #draw(index: number, block: number, lane: number, purpose: number): void {
    philox(this.#words, this.#key, [index >>> 0, block, lane, purpose]);
  }

  /** A uniform number in [0, 1) with 53 bits, from words `word` and `word` + 1. */
  #uniform(word: number): number {
    const high = (this.#words[word] ?? 0) >>> 5;
    const low = (this.#words[word + 1] ?? 0) >>> 6;
    return (high * 0x400_0000 + low) / 0x20_0000_0000_0000;
  }

  /** A uniform number with mean 0 and variance 1. */
  #spread(word: number): number {
    return (((this.#words[word] ?? 0) + 0.5) / 0x8000_0000 - 1) * Math.sqrt(3);
  }

  /** Draws four standard normal numbers (Box and Muller). */
  #drawNormals(index: number, block: number, lane: number, purpose: number): void {
    this.#draw(index, block, lane, purpose);
    for (let n = 0; n < 4; n += 2) {
      const radius = Math.sqrt(-2 * Math.log(((this.#words[n] ?? 0) + 0.5) / 0x1_0000_0000));
      const angle = (2 * Math.PI * (this.#words[n + 1] ?? 0)) / 0x1_0000_0000;
      this.#normals[n] = radius * Math.cos(angle);
      this.#normals[n + 1] = radius * Math.sin(angle);
    }
  }
}

/** The ids of a bag. Where all bags are equally long, nothing is drawn. */
function lengthOf(bag: BagLengths, uniform: () => number): number {
  if ("min" in bag) {
    const { min, max } = bag;
    return min === max ? min : min + Math.floor(uniform() * (max - min + 1));
  }
  const { mean, spread } = bag;
  const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
  const normal = radius * Math.cos(2 * Math.PI * uniform());
  const real = mean * Math.exp(spread * normal - (spread * spread) / 2);
  // Rounded at random, up as often as its fraction says: small means stay as they are.
  return Math.min(bagIdsMax, Math.floor(real + uniform()));
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}
