// The levels of a machine's speed. The clock of a shared machine, or its neighbours, may change its
// speed between two levels within a run. Each measurement of a comparison is made between two
// readings of the level, and only measurements of one level are compared with each other.

import { boundOf } from "../../packages/what-if/index.ts";
import { limitOf } from "../limits/limits.ts";
import { quantiles } from "../row.ts";

/** A measured rate, and the level: the mean of the readings before and after, in GFLOP/s. */
export interface Levelled {
  readonly rate: number;
  readonly level: number;
}

/** Our measurement and the peer's of one round. */
export interface Pair {
  readonly ours: Levelled;
  readonly peer: Levelled;
}

/** Pairs whose two measurements are at the same level. */
export interface PairsOfLevel {
  /** Median of the readings, in GFLOP/s; 0 where the level cannot be read. */
  readonly level: number;
  readonly pairs: readonly Pair[];
  /** Median of ours / the peer's, pair by pair. */
  readonly ratio: number;
}

/** Seconds of a reading. */
export const readingSeconds = 0.1;

/** Reads levels before and after the measurements that it makes, one after the other. */
export function levelReader(cores: number): (rate: () => Promise<number>) => Promise<Levelled> {
  let before: number | undefined;
  const read = () => limitOf(cores, "fma", readingSeconds);
  return async (measure) => {
    before ??= await read();
    const rate = await measure();
    const after = await read();
    const level = (before + after) / 2;
    before = after;
    return { rate, level };
  };
}

/** The pairs of each level, the level with most pairs first. Pairs across levels are left out. */
export function levelsOf(pairs: readonly Pair[]): PairsOfLevel[] {
  const bound = boundOf(pairs.flatMap(({ ours, peer }) => [ours.level, peer.level]));
  const levels = [true, false].map((isHigh) => {
    const own = pairs.filter((pair) => {
      return pair.ours.level > bound === isHigh && pair.peer.level > bound === isHigh;
    });
    const level = quantiles(own.flatMap(({ ours, peer }) => [ours.level, peer.level])).median;
    const ratio = quantiles(own.map(({ ours, peer }) => ours.rate / peer.rate)).median;
    return { level, pairs: own, ratio };
  });
  return levels
    .filter((one) => one.pairs.length > 0)
    .sort((a, b) => b.pairs.length - a.pairs.length);
}
