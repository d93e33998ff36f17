// Files that claim to be of torch.save, safetensors or ONNX: each error is one sentence, and
// flipped bytes lead to nothing worse than an error.

import { readFileSync } from "node:fs";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError, TrainingError } from "../../../../src/errors/errors.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { progressOf } from "../../../../storage/disk/progress.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { expectedOfPyTorch, pytorchFile } from "../../../../test/helpers/models/pytorch.ts";
import {
  bytesOf,
  diskOf,
  tensor,
  text,
  torchOf,
  zipOf,
} from "../../../../test/helpers/stores/torch-bytes.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { exportModel } from "../../exports/export-model.ts";
import { importModel, openSource } from "../../imports/import-model.ts";
import { readModel } from "../../imports/match-model.ts";
import { PickledTensor } from "../../torch/pickled-values.ts";
import { openTorchPath } from "../../torch/read-torch-file.ts";

const progress = progressOf({});

function isRefused(t: ExecutionContext, bytes: Uint8Array, message: RegExp): void {
  t.throws(() => openTorchPath("m.pt", diskOf(bytes)), { instanceOf: InputUnusableError, message });
}

const empty = bytesOf(0x80, 2, "}.");

/** A file with bytes changed by `by` at the position where `find` occurs. */
function changed(bytes: Uint8Array, find: Uint8Array, by: (at: Buffer) => void): Buffer {
  const all = Buffer.from(bytes);
  const at = all.indexOf(find);
  by(all.subarray(at));
  return all;
}

const record = bytesOf("PK", 1, 2);
const header = bytesOf("PK", 3, 4);

test("zip entries must be uncompressed, disjoint and safely named", (t) => {
  const plain = zipOf({ "m/data.pkl": empty, "m/version": "3\n" });
  t.is(openTorchPath("m.pt", diskOf(plain)).note("version"), "3\n");
  const packed = changed(plain, record, (at) => at.writeUInt16LE(8, 10));
  isRefused(t, packed, /`m\/data\.pkl` is compressed, expected it stored.*: write the file again/);
  isRefused(
    t,
    changed(plain, record, (at) => at.writeUInt16LE(1, 8)),
    /is encrypted/,
  );
  for (const name of ["../x", "/etc/x", "m/../../x", "m\\x", ""]) {
    isRefused(t, zipOf({ "m/data.pkl": empty, [name]: "" }), /is a path that leads out of it/);
  }
  const two = zipOf({ "m/data.pkl": empty, "m/data.pkK": empty });
  const again = Buffer.from(two);
  for (let at = again.indexOf("pkK"); at >= 0; at = again.indexOf("pkK")) again.write("pkl", at);
  isRefused(t, again, /has two entries `m\/data\.pkl`/);
  const other = changed(plain, bytesOf("m/data.pkl"), (at) => at.write("n"));
  isRefused(t, other, /has another header than the directory says/);
  const shared = changed(plain, bytesOf(record, 0, 0), (at) => {
    at.subarray(1).subarray(at.subarray(1).indexOf(record)).writeUInt32LE(0, 42);
  });
  isRefused(t, shared, /overlaps another part|another header/);
  isRefused(
    t,
    changed(plain, record, (at) => at.writeUInt32LE(2 ** 31, 42)),
    /outside the file/,
  );
  const grown = changed(plain, record, (at) => {
    at.writeUInt32LE(5000, 20);
    at.writeUInt32LE(5000, 24);
  });
  isRefused(t, grown, /overlaps another part of the file/);
  isRefused(
    t,
    changed(plain, bytesOf("PK", 6, 6), (at) => at.writeUInt32LE(9999, 32)),
    /cannot be/,
  );
  isRefused(
    t,
    changed(plain, bytesOf("PK", 6, 6), (at) => at.fill(255, 48, 56)),
    /than any file/,
  );
  isRefused(
    t,
    changed(plain, bytesOf("PK", 6, 6), (at) => at.writeUInt32LE(1, 16)),
    /several parts/,
  );
  for (const [name, own, message] of [
    ["m/other", "", /has 0 entries `…\/data\.pkl`, expected one/],
    ["n/data.pkl", empty, /has 2 entries/],
    ["m/constants.pkl", "", /is a TorchScript program/],
    ["m/byteorder", "big", /numbers are big-endian/],
  ] as const) {
    const base = name === "m/other" ? {} : { "m/data.pkl": empty };
    isRefused(t, zipOf({ ...base, [name]: own }), message);
  }
  t.true(plain.indexOf(header[0] ?? 0) === 0);
});

test("a file that is cut short anywhere is refused", (t) => {
  const whole = zipOf({ "m/data.pkl": empty, "m/version": "3\n" });
  for (let length = 0; length < whole.length; length++) {
    isRefused(t, whole.subarray(0, length), /^Expected m\.pt to be a file of torch\.save: /);
  }
});

test("a storage must have the bytes that the pickle states, and their checksum", async (t) => {
  const of = (count: number, bytes: number) => {
    const value = bytesOf("}", text("a"), tensor({ count, shape: [2], strides: [1] }), "s");
    return torchOf(value, [new Uint8Array(bytes).fill(1)]);
  };
  const read = async (bytes: Uint8Array) => {
    const file = openTorchPath("m.pt", diskOf(bytes));
    const own = (file.value as Map<string, PickledTensor>).get("a");
    if (own === undefined) throw new Error("no tensor");
    await file.check(own, progress);
    return file.read(own, 0, 2);
  };
  t.deepEqual(await read(of(4, 16)), new Uint8Array(8).fill(1));
  const lied = {
    instanceOf: InputUnusableError,
    message: /its pickle gives entry `m\/data\/0` 4 numbers .* but the entry has 12 bytes/,
  };
  await t.throwsAsync(read(of(4, 12)), lied);
  const missing = torchOf(
    bytesOf("}", text("a"), tensor({ count: 4, shape: [2], strides: [1] }), "s"),
  );
  await t.throwsAsync(read(missing), { message: /entry `data\/0` is missing/ });
  const flipped = changed(of(4, 16), new Uint8Array(16).fill(1), (at) => at.writeUInt8(2, 3));
  await t.throwsAsync(read(flipped), { message: /checksum of its entry `m\/data\/0` is wrong/ });
});

test("views, strides and types give the numbers of PyTorch", (t) => {
  const file = openTorchPath(
    pytorchFile("views.pt"),
    diskOf(readFileSync(pytorchFile("views.pt"))),
  );
  const { views } = expectedOfPyTorch();
  t.is(Object.keys(views).length, 15);
  const source = openSource("v.pt", diskOf(readFileSync(pytorchFile("views.pt"))));
  for (const [name, { shape, values }] of Object.entries(views)) {
    const own = (file.value as Map<string, PickledTensor>).get(name);
    t.deepEqual(own?.shape, shape, name);
    if (!(own instanceof PickledTensor) || own.storage.type !== "float32") continue;
    const rows = shape[0] ?? 1;
    const all = new Float32Array(file.read(own, 0, rows).buffer);
    t.deepEqual(all, Float32Array.from(values), name);
    // Row by row gives the same numbers.
    const single = Array.from({ length: rows }, (_, row) => [
      ...new Float32Array(file.read(own, row, 1).buffer),
    ]);
    t.deepEqual(Float32Array.from(single.flat()), all, name);
    t.deepEqual(source.tensors.get(name)?.read(0, rows), file.read(own, 0, rows));
  }
});

/** Flips random bits of a file; checks that reading succeeds or raises an error with a code. */
async function flip(t: ExecutionContext, name: string, bytes: Uint8Array, seeds: number) {
  const found = new Set<string>();
  for (let seed = 1; seed <= seeds; seed++) {
    const stream = new RandomStream(seed, 1, 9);
    const own = Buffer.from(bytes);
    const flips = 1 + Math.floor(3 * stream.uniform());
    for (let i = 0; i < flips; i++) {
      // Tensor numbers are most of a file but test little, so half of the flips are near its ends.
      const near = stream.uniform() < 0.5 ? own.length : Math.min(own.length, 2500);
      const at = Math.floor(near * stream.uniform());
      const place = stream.uniform() < 0.5 ? at : own.length - 1 - at;
      own[place] = (own[place] ?? 0) ^ (1 << Math.floor(8 * stream.uniform()));
    }
    try {
      const source = openSource(name, diskOf(own));
      readModel(source, { from: undefined, isFresh: false, job: undefined });
      for (const one of source.tensors.values()) {
        await one.check(progress);
        one.read(0, one.shape[0] ?? 1);
      }
      found.add("read");
    } catch (error) {
      const isNamed = error instanceof TrainingError && error.message.length < 2000;
      t.true(isNamed, `${name}, seed ${seed}: ${(error as Error).stack}`);
      found.add((error as TrainingError).code);
    }
  }
  t.true(found.has("INPUT_UNUSABLE"), name);
}

test("flipped bytes of any file are either read or refused with an error code", async (t) => {
  const home = startDirectory(t);
  await importModel(pytorchFile("dlrm-cat.pt"), { out: `${home}/a` });
  await exportModel(`${home}/a`, `${home}/m.safetensors`);
  await exportModel(`${home}/a`, `${home}/m.onnx`);
  const files = [pytorchFile("dlrm.pt"), pytorchFile("torchrec-dcn.pt")];
  for (const path of [...files, `${home}/m.safetensors`, `${home}/m.onnx`]) {
    await flip(t, path, readFileSync(path), rounds("files with flipped bytes", 25, 250));
  }
});
