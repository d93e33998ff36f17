// Question: how much smaller is a table whose rows are clustered by session? `osiris
// cluster-sessions` writes the same rows clustered and shuffled, with the same codec and row
// groups. Limit: the clustered bytes. RecD reports 3.71 times at most.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { clusterSessions } from "../../packages/ingest/sessions/cluster-sessions.ts";
import { writeSessionLines } from "../../src/data/synthetic/generated-lines.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { hasSessions, realNames, realRows } from "./real-sessions.ts";

export interface StorageOptions {
  readonly rows: number;
  /** Directory of real files, which are in its folder `session`. */
  readonly data: string;
}

/** Samples of a session, and the probability that a list of the user stays the same. */
const drawn = [
  [4, 0.9],
  [8, 0.9],
  [16, 0.8],
  [16, 0.9],
  [16, 0.95],
  [16, 1],
] as const;

/** Targets of this project and of the paper, for 16 samples and 0.9. */
const target = [2, 3.71] as const;
/** Distinct ids of a feature. */
const ids = 1_000_000;

export const storageBench: Bench<StorageOptions> = {
  question: "bytes of rows, clustered by session beside shuffled",
  options: [
    positiveOption("--rows <count>", "rows of a generated table", 32_768),
    new Option("--data <directory>", "real files, with `session` below").default("../shared/data"),
  ],
  full: { rows: 262_144 },
  measurements({ rows, data }) {
    const seconds = 1 + (9 * rows) / 32_768;
    const generated = drawn.map(([samples, d]) => {
      const name = `dedup.storage.${samples}.${d}`;
      return together([name], seconds, () =>
        withHome((home) => drawnRow(home, { samples, d, rows })),
      );
    });
    const real = realNames
      .filter((name) => hasSessions(data, name))
      .map((name) => {
        const row = `dedup.storage.${name}`;
        return together([row], 10, () =>
          withHome((home) => {
            const path = join(home, "rows.jsonl");
            const lines = realRows(data, name).map((one) => JSON.stringify(one));
            writeFileSync(path, `${lines.join("\n")}\n`);
            return tableRow(row, path);
          }),
        );
      });
    return [...generated, ...real];
  },
};

function drawnRow(
  home: string,
  { samples, d, rows }: { samples: number; d: number; rows: number },
): Promise<BenchRow> {
  const path = join(home, "rows.jsonl");
  writeSessionLines({ samples: rows, fixed: samples, d, rows: ids }, path);
  const isNamed = samples === 16 && d === 0.9;
  return tableRow(`dedup.storage.${samples}.${d}`, path, isNamed ? target : undefined);
}

async function tableRow(
  name: string,
  path: string,
  reached?: readonly [number, number],
): Promise<BenchRow> {
  const report = await clusterSessions([path], `${path}.table`, { compare: true });
  const { rows, bytes, bytesShuffled = 0 } = report;
  return rowOf(
    {
      name,
      unit: "bytes a row, shuffled",
      limitIs: "clustered",
      ...(reached && { target: reached }),
    },
    [bytesShuffled / rows],
    [bytes / rows],
  );
}

async function withHome(work: (home: string) => Promise<BenchRow>): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-sessions-");
  return [await work(home.path)];
}
