// The conformance suite of checkpoint stores, in a directory and in an object store.

import test, { type ImplementationFn } from "ava";
import {
  CheckpointCorruptError,
  CheckpointForeignError,
  CheckpointMissingError,
  GenerationFencedError,
  InvalidOptionError,
} from "../../src/errors/errors.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import {
  commitCheckpoint,
  contentOf,
  type StartedStore,
  testJob,
  writePart,
} from "../helpers/stores/checkpoints.ts";

const fenced = { instanceOf: GenerationFencedError };
const otherJob = { jobIdentity: "b".repeat(64), jobText: '{"model":"m","seed":8}' };

/** Tests the stores that `start` starts; `kind` names them in titles. */
export function keepsCheckpoints(
  kind: string,
  start: () => StartedStore,
  declare: Declare = test,
): void {
  for (const laws of [chains, fences, collects, owners, damages]) laws(kind, start, declare);
}

type Declare = (title: string, run: ImplementationFn<[]>) => void;

function chains(kind: string, start: () => StartedStore, test: Declare): void {
  test(`${kind}: a new store has no checkpoint, and its first generation is 1`, (t) => {
    const { store } = start();
    t.is(store.latest(), undefined);
    t.deepEqual(store.list(), { manifests: [], damaged: [] });
    t.deepEqual(store.beginGeneration(), { generation: 1, latest: undefined, damaged: [] });
  });

  test(`${kind}: a committed checkpoint is read back byte for byte by the next store`, async (t) => {
    const { store, disk, open, name } = start();
    t.throws(() => openExistingStore(`${name}/none`, disk), { instanceOf: CheckpointMissingError });
    store.beginGeneration();
    const manifest = commitCheckpoint(store, { generation: 1, cut: 10, best: true });
    t.is(manifest.parent, null);
    t.is(manifest.jobIdentity, testJob.jobIdentity);
    t.deepEqual(manifest.metrics, { auc: 0.75 });
    const again = openExistingStore(name, disk);
    t.is(again.jobText, testJob.jobText);
    t.deepEqual(again.latest(), manifest);
    t.deepEqual(open().beginGeneration(), { generation: 2, latest: manifest, damaged: [] });
    for (const part of manifest.parts) {
      t.deepEqual(again.readWholePart(manifest, part.name), contentOf(10, part.name));
    }
    await again.verify(manifest);
  });

  test(`${kind}: each manifest names its parent, and each generation where it began`, (t) => {
    const { store } = start();
    store.beginGeneration();
    const first = commitCheckpoint(store, { generation: 1, cut: 10 });
    store.beginGeneration();
    const second = commitCheckpoint(store, { generation: 2, cut: 20 });
    const file = "000000010-g000001/manifest.json";
    t.deepEqual(second.parent, { file, sha256: first.sha256 });
    t.deepEqual(store.list().manifests, [second, first]);
    t.deepEqual([1, 2, 3].map(store.beginOf), [0, 10, undefined]);
  });

  test(`${kind}: a part larger than the read buffer streams back in pieces`, (t) => {
    const { store } = start();
    store.beginGeneration();
    const bytes = new Uint8Array(2_500_000).map((_, index) => index % 251);
    const pieces = [bytes.subarray(0, 1_000_000), bytes.subarray(1_000_000)];
    const part = writePart(store, { generation: 1, cut: 5, name: "rows-0001" }, ...pieces);
    t.is(part.bytes, bytes.length);
    const manifest = commitCheckpoint(store, { generation: 1, cut: 5, extra: [part] });
    t.is([...store.readPart(manifest, "rows-0001")].length, 3);
    t.is(Buffer.compare(store.readWholePart(manifest, "rows-0001"), bytes), 0);
    t.throws(() => store.readWholePart(manifest, "none"), { instanceOf: CheckpointMissingError });
  });

  test(`${kind}: a generation may continue from an earlier checkpoint, and gives up later ones`, async (t) => {
    const { store, open, checkpoints } = start();
    store.beginGeneration();
    const [first] = [10, 20].map((cut) => commitCheckpoint(store, { generation: 1, cut }));
    t.is(open().beginGeneration(first).latest?.cut, 10);
    t.deepEqual(
      store.list().manifests.map(({ cut }) => cut),
      [10],
    );
    commitCheckpoint(store, { generation: 2, cut: 20 });
    await store.collect({ generation: 2, keep: 2 });
    t.deepEqual(checkpoints(), ["000000010-g000001", "000000020-g000002"]);
    const gone = { ...(first ?? store.list().manifests[0]), sha256: "0".repeat(64) };
    t.throws(() => store.beginGeneration(gone as typeof first), {
      instanceOf: CheckpointMissingError,
    });
  });

  test(`${kind}: a calibration is stored, replaced and removed beside the model`, (t) => {
    const { store, open } = start();
    store.beginGeneration();
    const manifest = commitCheckpoint(store, { generation: 1, cut: 10 });
    const { modelDigest } = manifest;
    t.is(store.calibration(modelDigest), undefined);
    const digest = `sha256:${modelDigest}`;
    for (const by of ["held-out", "a.csv"]) {
      store.setCalibration(manifest, { version: 1, digest, by, tasks: [null] });
      t.is(open().calibration(modelDigest)?.by, by);
    }
    store.setCalibration(manifest, undefined);
    t.is(open().calibration(modelDigest), undefined);
  });
}

function fences(kind: string, start: () => StartedStore, test: Declare): void {
  test(`${kind}: a fenced generation is refused every operation, and what counts does not change`, async (t) => {
    const { store, open, name, checkpoints } = start();
    store.beginGeneration();
    commitCheckpoint(store, { generation: 1, cut: 10 });
    const late = store.packWriter(1, 20, "d1");
    late.begin("dense");
    late.write(contentOf(20, "dense"));
    late.end();
    const next = open();
    t.is(next.beginGeneration().latest?.cut, 10);
    const before = next.list();
    const error = t.throws(() => late.finish(), fenced);
    t.true(error.message.startsWith(`${name} was taken over by `));
    t.regex(error.message, /which writes generation 2/);
    t.throws(() => store.packWriter(1, 20, "d2").begin("dense"), fenced);
    t.throws(() => commitCheckpoint(store, { generation: 1, cut: 20 }), fenced);
    await t.throwsAsync(store.collect({ generation: 1, keep: 1 }), fenced);
    t.deepEqual(next.list(), before);
    await next.collect({ generation: 2, keep: 1 });
    t.deepEqual(checkpoints(), ["000000010-g000001"], "its leavings are collected");
  });

  test(`${kind}: a generation whose files were collected learns that it is fenced`, async (t) => {
    const { store, open } = start();
    store.beginGeneration();
    commitCheckpoint(store, { generation: 1, cut: 10 });
    const late = store.packWriter(1, 20, "d1");
    late.begin("dense");
    late.end();
    const next = open();
    next.beginGeneration();
    await next.collect({ generation: 2, keep: 1 });
    t.throws(() => late.finish(), fenced);
  });

  test(`${kind}: a commit is refused while a part is missing or has another size`, (t) => {
    const { store } = start();
    store.beginGeneration();
    const place = { file: "pack-ghost-00000", at: 0, bytes: 4, sha256: "0".repeat(64) };
    const part = { name: "ghost", ...place, base: [] };
    const corrupt = { instanceOf: CheckpointCorruptError, message: /pack-ghost-00000/ };
    t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10, extra: [part] }), corrupt);
    writePart(store, { generation: 1, cut: 10, name: "ghost" }, new Uint8Array(5));
    t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10, extra: [part] }), corrupt);
    t.is(store.latest(), undefined);
  });
}

function collects(kind: string, start: () => StartedStore, test: Declare): void {
  test(`${kind}: collect keeps the newest and the best checkpoint, and files being written`, async (t) => {
    const { store, checkpoints } = start();
    store.beginGeneration();
    for (const cut of [10, 20, 30, 40, 50]) {
      commitCheckpoint(store, { generation: 1, cut, best: cut < 30 });
    }
    writePart(store, { generation: 1, cut: 60, name: "dense" });
    const removed = await store.collect({ generation: 1, keep: 2 });
    t.deepEqual(removed, ["000000010-g000001", "000000030-g000001"]);
    const left = checkpoints().map((name) => Number.parseInt(name, 10));
    t.deepEqual(left, [20, 40, 50, 60]);
    t.deepEqual(store.checkpoints(), checkpoints());
    t.deepEqual(await store.collect({ generation: 1, keep: 2 }), []);
    t.deepEqual(
      store.list().manifests.map(({ cut }) => cut),
      [50, 40, 20],
    );
    const none = store.collect({ generation: 1, keep: 0 });
    await t.throwsAsync(none, { instanceOf: InvalidOptionError });
  });

  test(`${kind}: collect after a restore removes files of older generations, not its own first parts`, async (t) => {
    const { store, checkpoints } = start();
    store.beginGeneration();
    commitCheckpoint(store, { generation: 1, cut: 10 });
    writePart(store, { generation: 1, cut: 20, name: "dense" });
    store.beginGeneration();
    writePart(store, { generation: 2, cut: 10, name: "dense" });
    t.deepEqual(await store.collect({ generation: 2, keep: 1 }), ["000000020-g000001"]);
    t.deepEqual(checkpoints(), ["000000010-g000001", "000000010-g000002"]);
  });

  test(`${kind}: collect removes nothing while the newest checkpoint does not read back`, async (t) => {
    const { store, flip, checkpoints } = start();
    store.beginGeneration();
    for (const cut of [10, 20]) commitCheckpoint(store, { generation: 1, cut });
    flip("checkpoints/000000020-g000001/pack-d0-00000", 0);
    const corrupt = { instanceOf: CheckpointCorruptError, message: /20-g000001\/pack-.*`dense`/ };
    await t.throwsAsync(store.collect({ generation: 1, keep: 1 }), corrupt);
    t.is(checkpoints().length, 2);
  });

  test(`${kind}: a checkpoint that increments rest on is kept, and removed with the last of them`, async (t) => {
    const { store } = start();
    store.beginGeneration();
    const cuts = () => store.list().manifests.map(({ cut }) => cut);
    const baseline = commitCheckpoint(store, { generation: 1, cut: 10 });
    for (const cut of [20, 30, 40]) commitCheckpoint(store, { generation: 1, cut, on: baseline });
    await store.collect({ generation: 1, keep: 2 });
    t.deepEqual(cuts(), [40, 30, 10]);
    commitCheckpoint(store, { generation: 1, cut: 50 });
    await store.collect({ generation: 1, keep: 2 });
    t.deepEqual(cuts(), [50, 40, 10]);
    commitCheckpoint(store, { generation: 1, cut: 60 });
    await store.collect({ generation: 1, keep: 2 });
    t.deepEqual(cuts(), [60, 50]);
  });
}

function owners(kind: string, start: () => StartedStore, test: Declare): void {
  test(`${kind}: a store of another job is refused, and the error says which options differ`, (t) => {
    const { open, store } = start();
    store.beginGeneration();
    commitCheckpoint(store, { generation: 1, cut: 10 });
    t.throws(() => open(otherJob), { instanceOf: CheckpointForeignError, message: /other `seed`/ });
  });

  test(`${kind}: a job takes over a store without a checkpoint, and fences its former owner`, (t) => {
    const { open, store } = start();
    store.beginGeneration();
    const next = open(otherJob);
    t.is(next.beginGeneration().generation, 2);
    t.throws(() => commitCheckpoint(store, { generation: 1, cut: 10 }), fenced);
    commitCheckpoint(next, { generation: 2, cut: 10 });
    t.is(next.latest()?.jobIdentity, otherJob.jobIdentity);
    t.throws(() => open(), { instanceOf: CheckpointForeignError });
    t.throws(() => store.beginGeneration(), { instanceOf: CheckpointForeignError });
  });
}

function damages(kind: string, start: () => StartedStore, test: Declare): void {
  const pack = (cut: number) => `checkpoints/0000000${cut}-g000001/pack-d0-00000`;

  test(`${kind}: a flipped byte in a part is found and named when it is read`, async (t) => {
    const { store, flip } = start();
    store.beginGeneration();
    const manifest = commitCheckpoint(store, { generation: 1, cut: 10 });
    flip(pack(10), contentOf(10, "dense").length + 7);
    const message = /-g000001\/pack-d0-00000 is damaged: of its part `rows-0000`, its hash/;
    const corrupt = { instanceOf: CheckpointCorruptError, message };
    t.throws(() => store.readWholePart(manifest, "rows-0000"), corrupt);
    await t.throwsAsync(store.verify(manifest), corrupt);
    t.deepEqual(store.readWholePart(manifest, "dense"), contentOf(10, "dense"), "beside it");
  });

  test(`${kind}: a missing part and a damaged manifest are passed over, and kept for people`, async (t) => {
    const { store, open, flip, remove, checkpoints, files } = start();
    store.beginGeneration();
    for (const cut of [10, 20, 30]) commitCheckpoint(store, { generation: 1, cut });
    flip("checkpoints/000000020-g000001/manifest.json", 30);
    remove(pack(30));
    const begun = open().beginGeneration();
    t.is(begun.latest?.cut, 10);
    t.deepEqual(
      begun.damaged.map(({ reason }) => /it is not there|its hash is/.exec(reason)?.[0]),
      ["it is not there", "its hash is"],
    );
    for (const cut of [20, 30]) commitCheckpoint(store, { generation: 2, cut });
    await store.collect({ generation: 2, keep: 1 });
    const [kept] = checkpoints().filter((name) => name.startsWith("000000020-g000001"));
    t.deepEqual(files(kept ?? ""), ["manifest.json", "pack-d0-00000"]);
    t.deepEqual(store.list().damaged, []);
  });

  test(`${kind}: a checkpoint that a reader found damaged is passed over on its word`, (t) => {
    const { store } = start();
    store.beginGeneration();
    const [, last] = [10, 20].map((cut) => commitCheckpoint(store, { generation: 1, cut }));
    const { latest, damaged } = store.beginGeneration(undefined, [last?.sha256 ?? ""]);
    t.is(latest?.cut, 10);
    t.regex(damaged[0]?.reason ?? "", /a reader found/);
    t.is(store.beginGeneration().latest?.cut, 10);
  });

  test(`${kind}: a damaged baseline damages its increments, and the checkpoint before it is used`, async (t) => {
    const { store, flip, remove } = start();
    store.beginGeneration();
    commitCheckpoint(store, { generation: 1, cut: 10 });
    const baseline = commitCheckpoint(store, { generation: 1, cut: 20 });
    commitCheckpoint(store, { generation: 1, cut: 30, on: baseline });
    const newest = commitCheckpoint(store, { generation: 1, cut: 40, on: baseline });
    t.deepEqual(newest.written, { baseline: 134, differences: 2, sum: 328, last: 174 });
    await store.verify(newest);
    flip(pack(20), contentOf(20, "dense").length + 3);
    const message = /000000020-g000001\/pack-d0-00000 is damaged: of its part `rows-0000`/;
    const corrupt = { instanceOf: CheckpointCorruptError, message };
    await t.throwsAsync(store.verify(newest), corrupt);
    await t.throwsAsync(store.collect({ generation: 1, keep: 1 }), corrupt);
    remove(pack(20));
    const { latest, damaged } = store.beginGeneration();
    t.is(latest?.cut, 10);
    t.is(damaged.length, 3);
  });

  test(`${kind}: a missing checkpoint that a generation resumed from is reported as damage`, (t) => {
    const { store, remove } = start();
    store.beginGeneration();
    for (const cut of [10, 20]) commitCheckpoint(store, { generation: 1, cut });
    store.beginGeneration();
    for (const name of ["manifest.json", "pack-d0-00000"]) {
      remove(`checkpoints/000000020-g000001/${name}`);
    }
    const begun = store.beginGeneration();
    t.is(begun.latest?.cut, 10);
    t.is(begun.damaged[0]?.reason, "it is not there");
  });
}
