// Question: what does an object store cost? Writing and restoring a checkpoint beside the bare
// client, which only moves the bytes; the requests of a checkpoint; and the stall of a run that
// writes to it, beside the run that writes to a directory.

import { fork } from "node:child_process";
import { closeSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { Cluster } from "../../actors/cluster/cluster.ts";
import type { JobOptions } from "../../src/job/job.ts";
import { blockingObjectStore } from "../../src/objects/open-object-store.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { openParts } from "../../storage/checkpoints/store/open-parts.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";
import { createSaving } from "../../storage/checkpoints/store/part-writer.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";
import { callsOf, counted, noTraffic } from "./counted-objects.ts";

interface StoresBenchOptions {
  readonly rounds: number;
  readonly mib: number;
  readonly parts: number;
  readonly store?: string | undefined;
}

const kinds = ["write", "restore", "requests", "sent"] as const;

export const storesBench: Bench<StoresBenchOptions> = {
  question: "what checkpoints in an object store cost, beside a directory and the bare client",
  options: [
    positiveOption("--rounds <count>", "rounds of each figure", 5),
    positiveOption("--mib <count>", "size of a checkpoint", 256),
    positiveOption("--parts <count>", "parts of it", 64),
    new Option(
      "--store <address>",
      "a prefix of a bucket, s3://bucket/prefix, whose objects are removed afterwards; " +
        "left out: a bucket in the memory of another process of this machine",
    ),
  ],
  measurements(options) {
    const { rounds, mib } = options;
    const seconds = rounds * (mib / 64);
    const namesOf = (store: string) => kinds.map((kind) => `stores.${store}.${kind}`);
    return [
      together(namesOf("directory").slice(0, 2), seconds, () => inDirectory(options)),
      together(namesOf("bucket"), 2 * seconds, () =>
        withBucket(options, (address) => inBucket(options, address)),
      ),
      together(["stores.stall"], 20 * rounds, () =>
        withBucket(options, (address) => stalls(options, address)),
      ),
    ];
  },
};

/** Durations of one kind of transfer, ours and the bare client's, in seconds. */
interface Moves {
  readonly ours: number[];
  readonly bare: number[];
}

const gib = 2 ** 30;
const pieceBytes = 2 ** 20;

/** The operations of the bare client on the bytes of a checkpoint. */
interface BareClient {
  write(name: string, piece: Uint8Array, pieces: number): void;
  read(name: string, piece: Uint8Array): void;
}

function inDirectory(options: StoresBenchOptions): BenchRow[] {
  using home = temporaryHome("osiris-bench-");
  const { write, restore } = moves(options, join(home.path, "store"), {
    write(name, piece, pieces) {
      const file = openSync(join(home.path, name), "w");
      for (let at = 0; at < pieces; at++) writeSync(file, piece);
      fsyncSync(file);
      closeSync(file);
    },
    read(name, piece) {
      const file = openSync(join(home.path, name), "r");
      while (readSync(file, piece) > 0);
      closeSync(file);
    },
  });
  const limitIs = "the file written or read, without a hash";
  return [
    rateRow("directory.write", options, write, limitIs),
    rateRow("directory.restore", options, restore, limitIs),
  ];
}

function inBucket(options: StoresBenchOptions, address: string): BenchRow[] {
  const objects = blockingObjectStore(`${address}/bare`, realDisk);
  const { write, restore, requests, sent } = moves(options, `${address}/store`, {
    write(name, piece, pieces) {
      const upload = objects.upload(name);
      for (let at = 0; at < pieces; at++) upload.write(piece);
      upload.finish();
    },
    read(name, piece) {
      const object = objects.open(name);
      for (let at = 0; at < (object?.size ?? 0); at += piece.length) object?.read(piece, at);
      object?.close();
    },
  });
  objects.close();
  const limitIs = "the bare client, without a hash";
  const countRow = (name: string, values: readonly number[], unit: string) => {
    const { median, spread } = quantiles(values);
    return { name: `stores.bucket.${name}`, figure: median, unit, spread };
  };
  return [
    rateRow("bucket.write", options, write, limitIs),
    rateRow("bucket.restore", options, restore, limitIs),
    countRow("requests", requests, "calls a checkpoint"),
    countRow("sent", sent, "bytes sent over bytes of a checkpoint"),
  ];
}

/** Bytes a second. Only the bare client of a network is a bound: a file is read from memory. */
function rateRow(name: string, { mib }: StoresBenchOptions, moves: Moves, limitIs: string) {
  const rates = (seconds: readonly number[]) => seconds.map((one) => (mib * 2 ** 20) / gib / one);
  const target = name.startsWith("bucket") ? ([0.8, 0.95] as const) : undefined;
  const named = { name: `stores.${name}`, unit: "GiB/s", limitIs };
  return rowOf({ ...named, ...(target && { target }) }, rates(moves.ours), rates(moves.bare));
}

/** Writes and reads checkpoints, alternating with the bare client. */
function moves({ rounds, mib, parts }: StoresBenchOptions, address: string, bare: BareClient) {
  const piece = new Uint8Array(pieceBytes);
  const random = new RandomStream(1, 2, 3);
  for (let at = 0; at < piece.length; at++) piece[at] = random.below(256);
  const [write, restore]: [Moves, Moves] = [
    { ours: [], bare: [] },
    { ours: [], bare: [] },
  ];
  const [requests, sent]: [number[], number[]] = [[], []];
  const traffic = noTraffic();
  const objects = (at: string) => counted(blockingObjectStore(at, realDisk), traffic);
  const disk = { ...realDisk, objects };
  const store = openStore({ directory: address, jobIdentity: "b", jobText: "{}", disk });
  const { generation } = store.beginGeneration();
  const about = { generation, owner: "d0", differential: "one-shot", manifest: undefined } as const;
  for (let cut = 1; cut <= rounds; cut++) {
    write.bare.push(secondsOf(() => bare.write("bare", piece, mib)));
    const [calls, bytes] = [callsOf(traffic), traffic.writtenBytes];
    const saving = createSaving({ ...about, store });
    const startMs = performance.now();
    for (let part = 0; part < parts; part++) {
      saving.begin(cut, `table-${part}`, true);
      for (let at = part; at < mib; at += parts) saving.write(piece);
      saving.end([]);
    }
    const saved = saving.finish().map(({ leaves: _leaves, ...part }) => part);
    const manifest = store.commit({
      ...{ run: "r", cut, generation, metrics: null, position: null, best: false, parts: saved },
      ...{ modelDigest: "d", arithmetic: "any", createdBy: "bench" },
    });
    write.ours.push((performance.now() - startMs) / 1000);
    requests.push(callsOf(traffic) - calls);
    sent.push((traffic.writtenBytes - bytes) / (mib * 2 ** 20));
    restore.bare.push(secondsOf(() => bare.read("bare", piece)));
    const own = openParts(address, realDisk);
    restore.ours.push(
      secondsOf(() => {
        for (const { name } of manifest.parts) {
          for (const file of own.readFiles(manifest, name)) for (const _ of file);
        }
      }),
    );
    own.close();
  }
  return { write, restore, requests, sent };
}

function secondsOf(run: () => void): number {
  const startMs = performance.now();
  run();
  return (performance.now() - startMs) / 1000;
}

/** The longest stall of the checkpoints of a run, in the bucket over in a directory. */
async function stalls({ rounds }: StoresBenchOptions, address: string): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-stores-");
  const [inStore, onDisk]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const cache = join(home.path, "cache");
    onDisk.push(await stallOf(cache, join(home.path, `run-${round}`)));
    inStore.push(await stallOf(cache, `${address}/run-${round}`));
  }
  const named = { name: "stores.stall", unit: "ms", limitIs: "the same run, to a directory" };
  return [rowOf(named, inStore, onDisk)];
}

async function stallOf(cache: string, directory: string): Promise<number> {
  await using cluster = await Cluster.start({ devices: 2 });
  const tables = ["a", "b"].map((name) => ({ name, rows: 200_000, dim: 64 }));
  const job: JobOptions = {
    model: { kind: "dlrm", dense: 4, tables, bottom: [64], top: [1] },
    data: { kind: "synthetic", samples: 200 * 512, dense: 4, batchSize: 512, cache },
    checkpoint: { directory, everySteps: 20 },
  };
  const run = await cluster.submit(job);
  const stallsMs: number[] = [];
  for await (const event of run.events()) {
    if (event.type === "run.failed") throw new Error(event.error.message);
    if (event.type === "run.checkpointed") stallsMs.push(event.stallMs);
  }
  return quantiles(stallsMs).median;
}

/** Runs `measure` on the store of the options, or on a bucket in another process. */
async function withBucket<Result>(
  { store }: StoresBenchOptions,
  measure: (address: string) => Result | Promise<Result>,
): Promise<Result> {
  if (store !== undefined) {
    const address = `${store}/bench-${process.pid}`;
    try {
      return await measure(address);
    } finally {
      const objects = blockingObjectStore(address, realDisk);
      objects.remove(objects.list(""));
      objects.close();
    }
  }
  const program = new URL("./bucket-program.js", import.meta.url);
  const server = fork(program, [], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  try {
    const url = await new Promise<string>((resolve, reject) => {
      server.once("message", (message) => resolve(String(message)));
      server.once("exit", (code) => reject(new Error(`The bucket's process ended with ${code}`)));
    });
    const own = {
      AWS_ENDPOINT_URL_S3: url,
      AWS_ACCESS_KEY_ID: "KEY",
      AWS_SECRET_ACCESS_KEY: "secret",
    };
    Object.assign(process.env, own);
    return await measure("s3://bucket/bench");
  } finally {
    server.kill();
  }
}
