// In-memory replicas of checkpoints: how hosts fetch them from each other, and how a device
// restores from them.

import { createHash } from "node:crypto";
import test from "ava";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import {
  createMemoryBroker,
  type MemoryFaults,
} from "../../../../src/wire/transports/memory-transport.ts";
import {
  type PartReplica,
  ReplicaCache,
} from "../../../../storage/checkpoints/replicas/replica-cache.ts";
import {
  type Fetched,
  fetchReplica,
  serveReplicas,
} from "../../../../storage/checkpoints/replicas/replica-transfer.ts";
import {
  awaitedStates,
  createRestoreSource,
} from "../../../../storage/checkpoints/replicas/restore-source.ts";
import type { Manifest } from "../../../../storage/checkpoints/store/checkpoint-store.ts";
import { rounds } from "../../../helpers/thinned.ts";

function replicaOf(bytes: Uint8Array, name = "table-00000", cut = 1): PartReplica {
  const memory = new SharedArrayBuffer(bytes.length);
  new Uint8Array(memory).set(bytes);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { name, cut, generation: 1, bytes: bytes.length, sha256, memory };
}

const patterned = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 31) % 251);
const blank = (copy: PartReplica): PartReplica => ({
  ...copy,
  memory: new SharedArrayBuffer(copy.bytes),
});

/**
 * Fetches `wanted` from a host that holds `held`, in virtual time; undefined: the host never
 * answers.
 */
async function fetched(
  wanted: PartReplica,
  held: readonly PartReplica[] | undefined,
  faults: MemoryFaults = {},
): Promise<Fetched> {
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({
    clock,
    seed: 3,
    faults: { ...faults, delayMs: [1, 2] },
    onError: () => {}, // Damaged frames count as lost.
  });
  const find = ({ sha256 }: { sha256: string }) => held?.find((one) => one.sha256 === sha256);
  if (held !== undefined) serveReplicas(broker.connect("owner"), "copies", find);
  const answer = fetchReplica(wanted, {
    transport: broker.connect("buddy"),
    subject: "copies",
    clock,
    patienceMs: 5000,
    isOver: () => false,
    onPiece: () => {},
  });
  let result: Fetched | undefined;
  void answer.then((one) => {
    result = one;
  });
  while (result === undefined) {
    clock.advance(50);
    await new Promise((resume) => setImmediate(resume));
  }
  return result;
}

test("a file arrives complete, whatever is lost, repeated or damaged on the way", async (t) => {
  const copy = replicaOf(
    patterned(rounds("bytes that are fetched in spite of faults", 200_001, 1_000_001)),
  );
  const into = blank(copy);
  const faults = { drop: 0.2, duplicate: 0.2, reorder: 0.2, corrupt: 0.2 };
  t.is(await fetched(into, [copy], faults), "there");
  t.deepEqual(new Uint8Array(into.memory), new Uint8Array(copy.memory));
});

test("a host without the file refuses, and a silent host is skipped after a while", async (t) => {
  const copy = replicaOf(patterned(10));
  t.is(await fetched(blank(copy), [replicaOf(patterned(11))]), "none");
  t.is(await fetched(blank(copy), undefined), "silent");
});

test("the replica cache keeps to its size, and to files of the newest checkpoint", (t) => {
  const replicas = new ReplicaCache(100);
  const [a, b, c] = [
    replicaOf(patterned(60)),
    replicaOf(patterned(50)),
    replicaOf(patterned(30), "dense", 2),
  ];
  for (const one of [a, b, c]) replicas.put(one);
  t.deepEqual(replicas.all(), [a, c]);
  t.is(replicas.bytes, 90);
  replicas.retain([], 1);
  t.deepEqual(replicas.all(), [c], "cut 2 is newer than the newest checkpoint, and may become one");
  replicas.retain([], 2);
  t.is(replicas.bytes, 0);
});

/** A checkpoint with one part: an increment on a baseline, both of which the store has, too. */
function checkpointOf(newer: PartReplica, base: PartReplica) {
  const { name, bytes, sha256 } = newer;
  const parts = [{ name, bytes, sha256, base: [base] }];
  const manifest = { cut: 1, generation: 1, parts } as unknown as Manifest;
  const reads: number[] = [];
  const files = [newer, base].map(function* ({ memory }, i) {
    reads.push(i);
    yield new Uint8Array(memory);
  });
  const store = { readFiles: () => files, close: () => undefined };
  return { manifest, store, reads };
}

const bytesOf = (files: Iterable<Uint8Array>[]) => files.map((one) => Buffer.concat([...one]));

test("a replica whose bytes do not match the manifest is not used: the store is read", async (t) => {
  const [newer, base] = [replicaOf(patterned(1000)), replicaOf(patterned(5000))];
  const damaged = { ...base, memory: replicaOf(patterned(5000).reverse()).memory };
  const { manifest, store, reads } = checkpointOf(newer, base);
  const cells = { load: () => 0, store() {}, waitUntil: async () => t.fail() };
  const filled = new SharedArrayBuffer(0);
  const atHand = { here: [newer, damaged], awaited: [], filled };
  const source = createRestoreSource({ store, manifest, atHand, cells, cellBase: 0, peer: 9 });
  const expected = [newer, base].map(({ memory }) => Buffer.from(new Uint8Array(memory)));
  t.deepEqual(bytesOf(await source.files(newer.name)), expected);
  t.deepEqual(reads, [1]);
  t.deepEqual(source.restored, { memoryBytes: 1000, storeBytes: 5000 });
});

test("a file that no host holds is read from the store, and is a replica from then on", async (t) => {
  const [newer, base] = [replicaOf(patterned(1000)), replicaOf(patterned(5000))];
  const { manifest, store, reads } = checkpointOf(newer, base);
  const words = [7, awaitedStates.pending, awaitedStates.pending];
  const waits: string[] = [];
  const cells = {
    load: (cell: number) => words[cell] ?? 0,
    store() {},
    async waitUntil(wait: () => string, isTrue: () => boolean) {
      waits.push(wait());
      words[0] = 10 + waits.length; // Any file's piece starts the wait anew.
      t.true(isTrue());
      words[waits.length === 2 ? 1 : 2] = awaitedStates.nowhere;
    },
  };
  const awaited = [blank(newer), blank(base)];
  const filled = new SharedArrayBuffer(8);
  const atHand = { here: [], awaited, filled };
  const source = createRestoreSource({ store, manifest, atHand, cells, cellBase: 0, peer: 9 });
  bytesOf(await source.files(newer.name));
  t.is(waits[0], "table-00000 from the memory of another host");
  t.deepEqual(reads, [0, 1]);
  t.deepEqual([...new Int32Array(filled)], [1, 1]);
  for (const [i, { memory }] of [newer, base].entries()) {
    t.deepEqual(new Uint8Array(awaited[i]?.memory ?? memory), new Uint8Array(memory));
  }
});

test("parts of a leaving host replace older replicas, but none of the same cut", (t) => {
  const replicas = new ReplicaCache(100);
  replicas.put(replicaOf(patterned(90), "table-00000", 1));
  const handed = (name: string, bytes: number) => {
    return { ...replicaOf(patterned(bytes), name, 2), isHandedOver: true };
  };
  replicas.put(handed("table-00001", 60));
  replicas.put(handed("table-00002", 40));
  t.deepEqual(
    replicas.all().map(({ name }) => name),
    ["table-00001", "table-00002"],
  );
});
