// Fuzz targets that read model files: torch.save, safetensors, ONNX, `.osiris`, checkpoints,
// deltas.

import { createHash } from "node:crypto";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportModel } from "../../packages/formats/exports/export-model.ts";
import { openSource } from "../../packages/formats/imports/import-model.ts";
import { readModel } from "../../packages/formats/imports/match-model.ts";
import { exportDelta } from "../../packages/serve/model/export-delta.ts";
import { ServedModel } from "../../packages/serve/model/served-model.ts";
import { readFloats } from "../../packages/sharding/files/float-tensors.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import type { JobOptions } from "../../src/job/job.ts";
import { listCheckpoints } from "../../storage/checkpoints/list-checkpoints.ts";
import { openCheckpoint } from "../../storage/checkpoints/open-checkpoint.ts";
import { decodeManifest, encodeManifest } from "../../storage/checkpoints/store/manifest.ts";
import { hashOf, pageBytes } from "../../storage/checkpoints/store/model-file.ts";
import { verifyCheckpoints } from "../../storage/checkpoints/verify-checkpoints.ts";
import { seal } from "../../storage/disk/sealed-json.ts";
import { loadModel } from "../../storage/model/load-model.ts";
import { startCutModel } from "../helpers/stores/cut-model.ts";
import { drawModel } from "../helpers/stores/drawn-model.ts";
import { diskOf, unzipped, zipOf } from "../helpers/stores/torch-bytes.ts";
import { jsonValues, type Target, type Values } from "./target.ts";

/** A job with small tables of several kinds, whose checkpoints are in `home`. */
const jobIn = (home: string): JobOptions => ({
  model: {
    kind: "dlrm",
    dense: 2,
    tables: [
      { name: "a", rows: 12, dim: 4 },
      { name: "b", rows: 9, dim: 4, precision: "int8" },
      { name: "c", rows: 8, dim: 4, idBits: 64, dynamic: {} },
    ],
    bottom: [4],
    top: [1],
  },
  data: { kind: "synthetic", samples: 8, dense: 2, batchSize: 8 },
  checkpoint: { directory: join(home, "checkpoints") },
});

/** Reads everything that an import reads of a file of tensors. */
function importAll(bytes: Uint8Array): void {
  const disk = diskOf(bytes);
  const source = openSource("m", disk);
  for (const [, { shape, read }] of source.tensors) {
    const rows = shape[0] ?? 1;
    if (shape.every((size) => size > 0 && size < 2000)) read(0, Math.min(rows, 50));
  }
  readModel(source, { from: undefined, isFresh: false, job: undefined });
}

const fixture = (name: string) => readFileSync(join("test/fixtures", name));

const torch: Target = {
  name: "torch.save",
  seeds: () => ["dlrm-cat", "dlrm", "views"].map((name) => fixture(`pytorch/${name}.pt`)),
  read: (bytes) => importAll(bytes),
};

/** The ZIP entries of the valid file; cases change its pickle. */
let entries: Readonly<Record<string, Uint8Array>> = {};

const pickles: Target = {
  name: "pickles",
  seeds() {
    const bytes = fixture("pytorch/dlrm-cat.pt");
    entries = unzipped(bytes);
    return Object.entries(entries).flatMap(([name, own]) => {
      return name.endsWith("data.pkl") ? [own] : [];
    });
  },
  read(bytes) {
    const pickle = Object.keys(entries).find((name) => name.endsWith("data.pkl")) ?? "";
    importAll(zipOf({ ...entries, [pickle]: bytes }));
  },
};

/** Values of the safetensors header; the data that follow are unchanged. */
const headerValues: Values = {
  parse(bytes) {
    const length = Number(Buffer.from(bytes.buffer, bytes.byteOffset).readBigUInt64LE());
    return {
      header: jsonValues.parse(bytes.subarray(8, 8 + length)),
      data: bytes.length - 8 - length,
    };
  },
  write(value) {
    const { header, data } = (value ?? {}) as { header?: unknown; data?: unknown };
    const text = jsonValues.write(header);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    const bytes = typeof data === "number" && data >= 0 && data < 100_000 ? Math.floor(data) : 64;
    return Buffer.concat([length, text, Buffer.alloc(bytes, 1)]);
  },
};

const safetensors: Target = {
  name: "safetensors",
  seeds: () => [fixture("pytorch/dlrm-cat.safetensors"), fixture("safetensors/rows.safetensors")],
  read(bytes) {
    readFloats("m", diskOf(bytes));
    importAll(bytes);
  },
  values: headerValues,
};

/** Makes a checkpoint directory with a randomly initialised model in `home`; returns its path. */
async function drawnIn(home: string): Promise<string> {
  const { checkpoint } = await drawModel(jobIn(home));
  return checkpoint.directory;
}

const onnx: Target = {
  name: "onnx",
  async seeds(home) {
    const path = join(home, "m.onnx");
    await exportModel(await drawnIn(home), path);
    return [readFileSync(path)];
  },
  read: (bytes) => importAll(bytes),
};

/** Reads and verifies a model file or a checkpoint directory. */
async function readCheckpoint(path: string): Promise<void> {
  listCheckpoints(path);
  await using _ = await loadModel(path, { arithmetic: "auto" });
}

async function modelFileIn(home: string): Promise<string> {
  const path = join(home, "seed.osiris");
  await exportModel(await drawnIn(home), path);
  return path;
}

/** The entries of a valid model file; cases mutate some of them. */
let contents: Record<string, Uint8Array> = {};

async function readModelFile(bytes: Uint8Array, home: string): Promise<void> {
  const path = join(home, "input.osiris");
  writeFileSync(path, bytes);
  let refused: unknown;
  await verifyCheckpoints(path).catch((error: unknown) => {
    if (!(error instanceof TrainingError)) throw error;
    refused = error;
  });
  await readCheckpoint(path);
  if (refused !== undefined) throw refused;
}

const recordsOfModel = ["job.json", "manifest.json", "proof.json"];

/** An input is an object of the records by name. Each record is sealed again. */
const osirisRecords: Target = {
  name: "records of .osiris",
  async seeds(home) {
    contents = unzipped(readFileSync(await modelFileIn(home)));
    const records = recordsOfModel.map((name) => {
      const { sha256: _, ...own } = jsonValues.parse(contents[name] ?? new Uint8Array()) as {
        sha256?: string;
      };
      return [name, own];
    });
    return [jsonValues.write(Object.fromEntries(records))];
  },
  read(bytes, home) {
    let records: unknown;
    try {
      records = jsonValues.parse(bytes);
    } catch {
      return readModelFile(zipOf({ ...contents, "proof.json": bytes }, pageBytes), home);
    }
    const own = Object.entries(Object(records)).map(([name, value]) => {
      const isObject = typeof value === "object" && value !== null;
      return [name, isObject ? seal(value).text : `${JSON.stringify(value)}`];
    });
    return readModelFile(zipOf({ ...contents, ...Object.fromEntries(own) }, pageBytes), home);
  },
  values: jsonValues,
};

/** An input is the bytes of all parts. The hashes of their chunks are computed again. */
const osirisRows: Target = {
  name: "rows of .osiris",
  async seeds(home) {
    contents = unzipped(readFileSync(await modelFileIn(home)));
    const parts = Object.entries(contents).filter(([name]) => !name.endsWith(".json"));
    return [Buffer.concat(parts.map(([, own]) => own))];
  },
  read(bytes, home) {
    const proof = JSON.parse(Buffer.from(contents["proof.json"] ?? "").toString());
    const own = { ...contents };
    let at = 0;
    for (const part of proof.parts) {
      const changed = Buffer.alloc(contents[part.name]?.length ?? 0);
      changed.set(bytes.subarray(at, at + changed.length));
      at += changed.length;
      own[part.name] = changed;
      part.chunks = [hashOf(changed)];
    }
    own["proof.json"] = Buffer.from(seal(proof).text);
    return readModelFile(zipOf(own, pageBytes), home);
  },
};

const osirisBytes: Target = {
  name: ".osiris",
  seeds: async (home) => [readFileSync(await modelFileIn(home))],
  read: readModelFile,
};

/**
 * Inputs start with the file's name in its directory and a line break; the value is sealed again
 * after a change.
 */
const sealedValues: Values = {
  parse(bytes) {
    const end = bytes.indexOf(10);
    const { sha256: _, ...value } = jsonValues.parse(bytes.subarray(end + 1)) as {
      sha256?: string;
    };
    return { file: Buffer.from(bytes.subarray(0, end)).toString(), value };
  },
  write(given) {
    const { file, value } = (given ?? {}) as { file?: unknown; value?: unknown };
    const isObject = typeof value === "object" && value !== null;
    return Buffer.from(`${file}\n${isObject ? seal(value).text : JSON.stringify(value)}`);
  },
};

const recordNames = ["job.json", "generations/000001.json"];
const cut = "checkpoints/000000001-g000001";

/**
 * Makes a copy of the checkpoint directory in which the file `name` has these bytes; returns its
 * path.
 */
function withFile(home: string, name: string, bytes: Uint8Array): string {
  const directory = join(home, "changed");
  rmSync(directory, { recursive: true, force: true });
  cpSync(join(home, "checkpoints"), directory, { recursive: true });
  if (bytes.length > 0) writeFileSync(join(directory, name), bytes);
  return directory;
}

const records: Target = {
  name: "manifests",
  async seeds(home) {
    const directory = await drawnIn(home);
    return [...recordNames, `${cut}/manifest.json`].map((name) =>
      Buffer.concat([Buffer.from(`${name}\n`), readFileSync(join(directory, name))]),
    );
  },
  read(bytes, home) {
    const all = Buffer.from(bytes);
    const end = all.indexOf(10);
    const names = [...recordNames, `${cut}/manifest.json`];
    const name = names.find((one) => one === all.toString("utf8", 0, Math.max(0, end)));
    return readCheckpoint(withFile(home, name ?? `${cut}/manifest.json`, all.subarray(end + 1)));
  },
  values: sealedValues,
};

/** Inputs start with the number of the part; the manifest gets the hash of the changed part. */
const parts: Target = {
  name: "parts of checkpoints",
  async seeds(home) {
    const { store, manifest } = openCheckpoint(await drawnIn(home));
    return manifest.parts.map(({ name }, i) =>
      Buffer.concat([Buffer.from([i]), store.readWholePart(manifest, name)]),
    );
  },
  read(bytes, home) {
    const path = join(home, "checkpoints", cut, "manifest.json");
    const { sha256: _, ...manifest } = decodeManifest(readFileSync(path), path);
    const own = bytes.subarray(1);
    const changed = (bytes[0] ?? 0) % manifest.parts.length;
    const sha256 = createHash("sha256").update(own).digest("hex");
    const place = { file: "pack-changed-00000", at: 0, bytes: own.length, sha256 };
    const all = manifest.parts.map((part, i) => (i === changed ? { ...part, ...place } : part));
    const directory = withFile(home, `${cut}/${place.file}`, own);
    writeFileSync(join(directory, cut, place.file), own);
    const sealed = encodeManifest({ ...manifest, parts: all });
    writeFileSync(join(directory, cut, "manifest.json"), sealed.bytes);
    return readCheckpoint(directory);
  },
};

/**
 * Values of a delta's index, which is sealed again; the data before it have hashes only in the
 * index.
 */
const deltaValues: Values = {
  parse(bytes) {
    const all = Buffer.from(bytes);
    const length = all.readUInt32LE(all.length - 12);
    const first = all.length - 12 - length;
    const { sha256: _, ...index } = jsonValues.parse(all.subarray(first, all.length - 12)) as {
      sha256?: string;
    };
    return { index, data: all.subarray(0, first).toString("base64") };
  },
  write(value) {
    const { index, data } = (value ?? {}) as { index?: unknown; data?: unknown };
    const bytes = Buffer.from(String(data), "base64");
    const hash = createHash("sha256").update(bytes.subarray(8)).digest("hex");
    const own = typeof index === "object" && index !== null ? { ...index, dataSha256: hash } : {};
    const text = Buffer.from(seal(own).text);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([bytes, text, length, Buffer.from("OSIRIS-D")]);
  },
};

let from = "";

const deltas: Target = {
  name: "deltas",
  async seeds(home) {
    const trained = startCutModel(jobIn(home));
    from = (await trained.cut(1)).sha256;
    await trained.cut(1);
    const path = join(home, "seed.delta");
    await exportDelta(trained.directory, path, { since: from });
    return [readFileSync(path)];
  },
  mend: (bytes) => {
    try {
      return deltaValues.write(deltaValues.parse(bytes));
    } catch {
      return bytes;
    }
  },
  async read(bytes, home) {
    const path = join(home, "input.delta");
    writeFileSync(path, bytes);
    await using model = await ServedModel.open(join(home, "checkpoints"), { manifest: from });
    await model.applyDelta(path);
  },
  values: deltaValues,
};

export const modelTargets: readonly Target[] = [
  ...[torch, pickles, safetensors, onnx, osirisBytes, osirisRecords, osirisRows],
  ...[records, parts, deltas],
];
