// Question: how often do lists repeat within a batch, compared with RecD's formula? Batches of
// generated sessions, clustered and shuffled. Limit: 1 / (1 - d (S - 1) / S) for clustered
// sessions, 1 for shuffled ones.

import { sessionOptions } from "../../src/data/synthetic/session-options.ts";
import { Sessions } from "../../src/data/synthetic/sessions.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import { type Bench, single } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";

const samplesOfSession = [4, 8, 16] as const;
const probabilities = [0.8, 0.9, 0.95, 1] as const;
/** Samples of a batch, and of all data: a shuffled batch rarely has two of one session. */
const [batch, all] = [2048, 2 ** 20] as const;
const batches = 24;

export const factorBench: Bench = {
  question: "ids a distinct id within a batch, beside RecD's formula",
  options: [],
  measurements() {
    return samplesOfSession.flatMap((samples) =>
      probabilities.flatMap((d) => {
        const name = `${samples}.${d}`;
        return [
          single(`dedup.factor.clustered.${name}`, 1, () => factorRow(name, samples, d, false)),
          single(`dedup.factor.shuffled.${name}`, 1, () => factorRow(name, samples, d, true)),
        ];
      }),
    );
  },
};

function factorRow(name: string, samples: number, d: number, isShuffled: boolean): BenchRow {
  const options = sessionOptions.parse({ samples, features: { list: { d } } });
  const sessions = new Sessions({ seed: 1, samples: all, sessions: options, features: ["list"] });
  const chance = new RandomStream(1, purposes.sampleOrder);
  const factors = Array.from({ length: batches }, (_, i) => {
    const lists = new Set<string>();
    const indexes = new Set<number>();
    while (indexes.size < batch) {
      indexes.add(isShuffled ? chance.below(all) : i * batch + indexes.size);
    }
    for (const index of indexes) {
      const place = sessions.placeOf(index);
      lists.add(`${place.session}.${sessions.changesOf(0, place)}`);
    }
    return batch / lists.size;
  });
  const formula = 1 / (1 - (d * (samples - 1)) / samples);
  const order = isShuffled ? "shuffled" : "clustered";
  const limitIs = isShuffled ? "no list twice" : "the formula";
  return rowOf(
    { name: `dedup.factor.${order}.${name}`, unit: "ids a distinct id", limitIs },
    factors,
    [isShuffled ? 1 : formula],
  );
}
