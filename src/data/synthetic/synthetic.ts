// Generates samples with a planted truth. Sample i is a function of (seed, i) alone, not of earlier
// draws. Ids are Zipf-distributed, dense features normal, and
//
//   logit = bias + sum over features of effect(id) + dense . weights
//           + sum over feature pairs (0,1), (2,3), … (four at most) of latent(id) . latent(id')
//   label ~ Bernoulli(sigmoid(logit)), or Normal(logit, 1/2) if the label is numeric
//
// With several labels, each has its own effects, and they share the rest of the logit. Sample
// weights and groups are drawn independently.
//
// A bag contributes the mean over its ids, each multiplied by its weight if the feature has
// weights. To approach the best AUC, a model must learn every kind of term. The best AUC is the AUC
// of the true logits against the drawn labels.

import { expected } from "../../ports/check-options.ts";
import { type Key, keyOf, philox, purposes } from "../../ports/random.ts";
import type { Piece } from "../cache/cache-format.ts";
import {
  type BagLengths,
  idsOfFeature,
  type ResolvedSyntheticOptions,
  type TableShape,
} from "../options.ts";
import { bagIdsMax, Sample } from "../sample.ts";
import { areNumeric, groupOf, targetsOf, whenMissing } from "../targets.ts";
import { RankedLogits, rankedMax } from "./rank-auc.ts";
import { type SessionPlace, Sessions } from "./sessions.ts";
import { Zipf } from "./zipf.ts";

/** The result of generating. */
export interface GeneratedReport {
  readonly samples: number;
  /** Samples with label 1: about a quarter. */
  readonly positives: number;
  /**
   * AUC of the true logits against the drawn labels, over at most the first 2²⁴ samples; NaN if the
   * first label is numeric.
   */
  readonly bestAuc: number;
  /** For a numeric first label: RMSE of the true logits against the drawn labels. */
  readonly bestRmse?: number;
}

/** Generates all samples, and passes each to `take`. The next sample reuses its memory. */
export function generateSamples(
  options: ResolvedSyntheticOptions,
  tables: readonly TableShape[],
  take: (sample: Sample) => void,
  ranked = Math.min(options.samples, rankedMax),
): GeneratedReport {
  const generator = new SyntheticSamples(options, tables);
  const targets = targetsOf(options);
  const sample = new Sample({ dense: options.dense, features: tables.length, targets });
  if (areNumeric(options)[0] === true) return generateNumbers(generator, options, sample, take);
  const logits = new RankedLogits(ranked);
  let positives = 0;
  for (let index = 0; index < options.samples; index++) {
    const logit = generator.fill(sample, index);
    if (sample.label === 1) positives++;
    logits.add(sample.label, logit);
    take(sample);
  }
  return { samples: options.samples, positives, bestAuc: logits.auc() };
}

/** As `generateSamples`, for a numeric first label, which is drawn around the true logit. */
function generateNumbers(
  generator: SyntheticSamples,
  { samples }: ResolvedSyntheticOptions,
  sample: Sample,
  take: (sample: Sample) => void,
): GeneratedReport {
  let [squares, labelled] = [0, 0];
  for (let index = 0; index < samples; index++) {
    const logit = generator.fill(sample, index);
    if (!Number.isNaN(sample.label)) {
      squares += (sample.label - logit) ** 2;
      labelled++;
    }
    take(sample);
  }
  return { samples, positives: 0, bestAuc: Number.NaN, bestRmse: Math.sqrt(squares / labelled) };
}

/** Samples per split; the default is a typical row group. */
const splitSamplesOf = ({ splitSamples = 8192 }: ResolvedSyntheticOptions) => splitSamples;

/** The pieces of streamed samples, the units of generation. */
export function generatedPieces(options: ResolvedSyntheticOptions): Piece[] {
  const size = splitSamplesOf(options);
  return Array.from({ length: Math.ceil(options.samples / size) }, (_, rowGroup) => {
    const samples = Math.min(size, options.samples - rowGroup * size);
    return { file: 0, rowGroup, samples };
  });
}

const positiveShare = 0.25;
/** Number of samples, from index 0 on, on which the bias is fitted, independent of `samples`. */
const fittedSamples = 4096;
const pairsMax = 4;
/** Numbers drawn for an id: its effect, then its latent vector. One Philox block. */
const idNumbers = 4;
/** Most popular ids of a feature whose numbers are cached: they receive most lookups. */
const keptIdsMax = 1024;
/** Most cached ids of all features: 8 MiB. */
const keptMax = 262_144;
/**
 * Approximate standard deviations of the logit's three parts: best AUCs come out at 0.8 to 0.85.
 */
const scales = { effects: 0.8, pairs: 1.1, dense: 0.7 };

/** Fraction of samples that lack a label which may be missing. */
const missingShare = 0.25;

/** Standard deviation of a numeric label around its true logit. */
const labelNoise = 0.5;

/** The samples of one seed, by index. */
export class SyntheticSamples {
  readonly #key: Key;
  /** Bag lengths of each feature. */
  readonly #bags: readonly BagLengths[];
  readonly #sessions: Sessions | undefined;
  readonly #isWeighted: boolean;
  readonly #samplers: readonly Zipf[];
  readonly #pairs: number;
  readonly #weights: Float64Array;
  readonly #hasSampleWeights: boolean;
  readonly #groups: number;
  /** Whether each label is numeric. */
  readonly #numeric: readonly boolean[];
  /** Handling of missing values, per label; undefined if the label is never missing. */
  readonly #whenMissing: ReturnType<typeof whenMissing>;
  /** Effects of a sample's bags on each label after the first, relative to the first. */
  readonly #otherEffects: Float64Array;
  readonly #bias: number;
  readonly #words = new Uint32Array(4);
  readonly #normals = new Float64Array(4);
  /** (features, 4): for each feature, the mean of its bag's id numbers. */
  readonly #means: Float64Array;
  /** In each feature, ids below this one have cached numbers. */
  readonly #keptIds: number;
  /** (features · keptIds + 1, 4): numbers of the cached ids, then of the last uncached id. */
  readonly #numbers: Float64Array;
  /** (features · keptIds): 1 once the id's numbers have been drawn. */
  readonly #isDrawn: Uint8Array;

  constructor(options: ResolvedSyntheticOptions, tables: readonly TableShape[]) {
    this.#key = keyOf(options.seed);
    refuseUnknown("data.perFeature", options.perFeature, tables);
    refuseUnknown("data.sessions.features", options.sessions?.features, tables);
    const { seed, samples, sessions } = options;
    const features = tables.map(({ name }) => name);
    this.#sessions = sessions && new Sessions({ seed, samples, sessions, features });
    const ids = tables.map(({ name }) => idsOfFeature(options, name));
    this.#bags = ids.map(({ idsPerBag }) => idsPerBag);
    this.#hasSampleWeights = options.sampleWeights !== undefined;
    this.#groups = options.groups ?? 0;
    this.#numeric = areNumeric(options);
    this.#whenMissing = whenMissing(options);
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
    const place = this.#sessions?.placeOf(index);
    if (this.#groups === 0) {
      if (place !== undefined) sample.group.set(groupOf(String(place.session)));
      return;
    }
    this.#draw(index, 0, features, purposes.syntheticIds);
    sample.group.set(groupOf(String(Math.floor(this.#uniform(0) * this.#groups))));
  }

  #drawLabel(index: number, label: number, logit: number): number {
    const rule = this.#whenMissing[label];
    if (rule !== undefined) {
      this.#draw(index, 1, label, purposes.syntheticLabel);
      if (this.#uniform(0) < missingShare) return rule === "mask" ? Number.NaN : 0;
    }
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
    const place = this.#sessions?.placeOf(index);
    for (let feature = 0; feature < this.#samplers.length; feature++) {
      const lists = place && this.#sessions?.has(feature) ? this.#sessions : undefined;
      if (lists && place) this.#fillList(sample, feature, lists, place);
      else this.#fillBag(sample, feature, index);
      this.#meanNumbers(sample, feature);
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

  /** Computes the mean of the numbers of a bag's ids, which are the last ids of the sample. */
  #meanNumbers(sample: Sample, feature: number): void {
    const length = sample.lengths[feature] ?? 0;
    const first = sample.idCount - length;
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

  /** Draws the bag of one feature. */
  #fillBag(sample: Sample, feature: number, index: number): void {
    const bag = this.#bags[feature];
    const sampler = this.#samplers[feature];
    if (sampler === undefined || bag === undefined) return;
    const uniform = this.#uniforms(index, 0, feature, purposes.syntheticIds);
    const length = lengthOf(bag, uniform);
    const first = sample.idCount;
    for (let i = 0; i < length; i++) sample.push(feature, sampler.draw(uniform));
    for (let i = 0; this.#isWeighted && i < length; i++) {
      sample.weights[first + i] = this.#drawWeight(index, i, feature);
    }
  }

  /** Fills a session feature's list. Ids and weights are drawn by position in the session. */
  #fillList(sample: Sample, feature: number, sessions: Sessions, place: SessionPlace): void {
    const bag = this.#bags[feature];
    const sampler = this.#samplers[feature];
    if (sampler === undefined || bag === undefined) return;
    const { session } = place;
    const length = lengthOf(bag, this.#uniforms(session, 0, feature, purposes.sessionIds));
    const shift = sessions.changesOf(feature, place);
    for (let i = shift; i < shift + length; i++) {
      // 2^12 random blocks are reserved per id; nearly always the first suffices.
      const uniform = this.#uniforms(session, (1 + i) * 0x1000, feature, purposes.sessionIds);
      const id = sampler.draw(uniform);
      sample.push(feature, id, this.#isWeighted ? this.#drawWeight(session, i, feature) : 1);
    }
  }

  /** Index in `#numbers` of the numbers of an id, valid until the next call. */
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

  /** A weight, uniform between 0 and 2. */
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

  /** Bisects for the bias at which `positiveShare` of the first samples is positive on average. */
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

  /** A stream of uniform numbers, from the random block `first` on. */
  #uniforms(index: number, first: number, lane: number, purpose: number): () => number {
    let drawn = 0;
    return () => {
      if (drawn % 2 === 0) this.#draw(index, first + drawn / 2, lane, purpose);
      return this.#uniform(2 * (drawn++ % 2));
    };
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

/** @throws InvalidOptionError if a name in `named` is not a feature */
function refuseUnknown(
  option: string,
  named: object | undefined,
  features: readonly TableShape[],
): void {
  const isFeature = (name: string) => features.some((feature) => feature.name === name);
  const unknown = Object.keys(named ?? {}).find((name) => !isFeature(name));
  if (unknown === undefined) return;
  throw expected(option, "names of features: of tables, or of `model.features`", unknown);
}

/** Draws the number of ids of a bag. If all bags are equally long, nothing is drawn. */
function lengthOf(bag: BagLengths, uniform: () => number): number {
  if ("min" in bag) {
    const { min, max } = bag;
    return min === max ? min : min + Math.floor(uniform() * (max - min + 1));
  }
  const { mean, spread } = bag;
  const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
  const normal = radius * Math.cos(2 * Math.PI * uniform());
  const real = mean * Math.exp(spread * normal - (spread * spread) / 2);
  // Stochastic rounding, so that small means are preserved.
  return Math.min(bagIdsMax, Math.floor(real + uniform()));
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}
