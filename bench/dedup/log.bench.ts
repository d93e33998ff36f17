// Question: how much better does a log compress if its shards are chosen by session? Messages in
// order of time go to shards by the hash of their session, or of their request; each shard
// compresses blocks of 256 KiB with zstd. Limit: the ratio of shards by request. RecD reports 2.25,
// against 1.50 by request.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { logShardOf } from "../../packages/ingest/streams/log-shards.ts";
import { writeSessionLines } from "../../src/data/synthetic/generated-lines.ts";
import { packOf } from "../../storage/disk/packing.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, single } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { hasSessions, realNames, realRows } from "./real-sessions.ts";

export interface LogOptions {
  readonly messages: number;
  readonly shards: number;
  /** Directory of real files, which are in its folder `session`. */
  readonly data: string;
}

interface Message {
  readonly request: string;
  readonly session: number;
  readonly text: string;
}

const blockBytes = 256 * 1024;
/** 2.25 / 1.50 */
const target = [1, 1.5] as const;

export const logBench: Bench<LogOptions> = {
  question: "compression of a log in shards by session, beside shards by request",
  options: [
    positiveOption("--messages <count>", "messages generated", 131_072),
    positiveOption("--shards <count>", "shards of the log", 128),
    new Option("--data <directory>", "real files, with `session` below").default("../shared/data"),
  ],
  full: { messages: 524_288 },
  measurements({ messages, shards, data }) {
    const seconds = 1 + (20 * messages) / 131_072;
    const name = `dedup.log.generated.${shards}`;
    const generated = single(name, seconds, () => logRow(name, drawnMessages(messages), shards));
    const real = realNames
      .filter((one) => hasSessions(data, one))
      .map((one) => {
        // The files have too few messages to fill the blocks of more than a few shards.
        const row = `dedup.log.${one}.4`;
        return single(row, 4, () => {
          const logged = realRows(data, one).map((message) => {
            const { request, session } = message;
            return { request, session, text: JSON.stringify(message) };
          });
          return logRow(row, logged, 4);
        });
      });
    return [generated, ...real];
  },
};

function drawnMessages(count: number): Message[] {
  using home = temporaryHome("osiris-log-");
  const path = join(home.path, "log.jsonl");
  writeSessionLines({ samples: count, rows: 1_000_000 }, path);
  const lines = readFileSync(path, "latin1").trimEnd().split("\n");
  return lines.map((line, i) => {
    const [, session = ""] = /"session":(\d+)/.exec(line) ?? [];
    return { request: `r${i}`, session: Number(session), text: line };
  });
}

async function logRow(
  name: string,
  messages: readonly Message[],
  shards: number,
): Promise<BenchRow> {
  const compress = await packOf(".zst");
  const ratioBy = (keyOf: (message: Message) => string | number) => {
    const waiting = Array.from({ length: shards }, () => ({ bytes: 0, texts: [] as string[] }));
    let [before, after] = [0, 0];
    const pack = (shard: { bytes: number; texts: string[] }) => {
      const block = Buffer.from(shard.texts.join("\n"), "latin1");
      before += block.length;
      after += compress(block).length;
      shard.bytes = 0;
      shard.texts = [];
    };
    for (const message of messages) {
      const shard = waiting[logShardOf(keyOf(message), shards)];
      if (shard === undefined) continue;
      shard.texts.push(message.text);
      shard.bytes += message.text.length + 1;
      if (shard.bytes >= blockBytes) pack(shard);
    }
    // The remaining messages of each shard make a shorter block.
    for (const shard of waiting) if (shard.bytes > 0) pack(shard);
    return before / after;
  };
  const [bySession, byRequest] = [
    ratioBy(({ session }) => session),
    ratioBy(({ request }) => request),
  ];
  return rowOf(
    { name, unit: "bytes a packed byte, by session", limitIs: "by request", target },
    [bySession],
    [byRequest],
  );
}
