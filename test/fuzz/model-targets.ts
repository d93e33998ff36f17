// Fuzz targets that read model files: torch.save, safetensors, ONNX, `.osiris`, checkpoints,
// deltas.

import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportModel } from "../../packages/formats/exports/export-model.ts";
import { verifyModelFile } from "../../packages/formats/exports/verify-model-file.ts";
import { readModel } from "../../packages/formats/imports/named-model.ts";
import { openSource } from "../../packages/formats/imports/open-source.ts";
import { exportDelta } from "../../packages/serve/model/export-delta.ts";
import { ServedModel } from "../../packages/serve/model/served-model.ts";
import { readFloats } from "../../packages/sharding/files/float-tensors.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import type { JobOptions } from "../../src/job/job.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { listCheckpoints } from "../../storage/checkpoints/list-checkpoints.ts";
import { footerOf } from "../../storage/checkpoints/store/file-checkpoint-store.ts";
import {
  endOf,
  type Footer,
  hashOf,
  pageBytes,
} from "../../storage/checkpoints/store/model-file.ts";
import { readZip } from "../../storage/disk/read-zip.ts";
import { seal } from "../../storage/disk/sealed-json.ts";
import { loadModel } from "../../storage/model/load-model.ts";
import { startCutModel } from "../helpers/stores/cut-model.ts";
import { drawModel } from "../helpers/stores/drawn-model.ts";
import { diskOf, zipOf } from "../helpers/stores/torch-bytes.ts";
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
    const found = [...readZip(diskOf(bytes).open("m.pt", "read"), "m.pt")];
    entries = Object.fromEntries(
      found.map(([name, { start, bytes: length }]) => [
        name,
        bytes.subarray(start, start + length),
      ]),
    );
    return found.flatMap(([name]) => (name.endsWith("data.pkl") ? (entries[name] ?? []) : []));
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

/** The bytes before the footer of a valid model file; cases mutate the footer. */
let body = new Uint8Array(0);
/** The footer of a valid model file; cases mutate the rows before it. */
let footer: Footer | undefined;

const footerValues: Values = {
  parse(bytes) {
    const { job, manifest, sha256: _, ...rest } = JSON.parse(Buffer.from(bytes).toString("utf8"));
    const { sha256: _seal, ...own } = JSON.parse(manifest);
    return { ...rest, job: JSON.parse(job), manifest: own };
  },
  write(value) {
    if (typeof value !== "object" || value === null) return jsonValues.write(value);
    const { job, manifest, ...rest } = value as Record<string, unknown>;
    const text = typeof manifest === "object" && manifest !== null ? seal(manifest).text : manifest;
    return Buffer.from(seal({ ...rest, job: JSON.stringify(job), manifest: text }).text);
  },
};

async function readModelFile(bytes: Uint8Array, home: string): Promise<void> {
  const path = join(home, "input.osiris");
  writeFileSync(path, bytes);
  let refused: unknown;
  await verifyModelFile(path).catch((error: unknown) => {
    if (!(error instanceof TrainingError)) throw error;
    refused = error;
  });
  await readCheckpoint(path);
  if (refused !== undefined) throw refused;
}

const osirisFooter: Target = {
  name: "footer of .osiris",
  async seeds(home) {
    const path = await modelFileIn(home);
    const all = readFileSync(path);
    const first = Number(all.readBigUInt64LE(all.length - 24));
    body = Uint8Array.from(all.subarray(0, first));
    return [all.subarray(first, all.length - 24)];
  },
  read(bytes, home) {
    const end = Buffer.alloc(24);
    end.writeBigUInt64LE(BigInt(body.length));
    end.writeBigUInt64LE(BigInt(bytes.length), 8);
    end.write("OSIRIS-1", 16);
    return readModelFile(Buffer.concat([body, bytes, end]), home);
  },
  values: footerValues,
};

const osirisRows: Target = {
  name: "rows of .osiris",
  async seeds(home) {
    const path = await modelFileIn(home);
    footer = footerOf(path, realDisk);
    const all = readFileSync(path);
    return [all.subarray(pageBytes, Number(all.readBigUInt64LE(all.length - 24)))];
  },
  /** The hashes of chunks are computed again for the changed bytes. */
  read(bytes, home) {
    if (footer === undefined) throw new Error("seeds first");
    const { sections, sha256: _, version: _version, ...rest } = footer;
    const last = sections.at(-1);
    const length = (last?.first ?? 0) + pageBytes * Math.ceil((last?.bytes ?? 0) / pageBytes);
    const all = Buffer.alloc(length);
    all.write("osiris model 1\n");
    all.set(bytes.subarray(0, length - pageBytes), pageBytes);
    const own = sections.map((section) => {
      const padded = pageBytes * Math.ceil(section.bytes / pageBytes);
      const chunk = all.subarray(section.first, section.first + padded);
      return { ...section, chunks: padded === 0 ? [] : [hashOf(chunk)] };
    });
    return readModelFile(Buffer.concat([all, endOf({ ...rest, sections: own }, length)]), home);
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
    const folder = join(await drawnIn(home), cut);
    const names = readdirSync(folder).filter((name) => name !== "manifest.json");
    return names
      .sort()
      .map((name, i) => Buffer.concat([Buffer.from([i]), readFileSync(join(folder, name))]));
  },
  read(bytes, home) {
    const path = join(home, "checkpoints", cut, "manifest.json");
    const { sha256: _, ...manifest } = JSON.parse(readFileSync(path, "utf8"));
    const names = manifest.parts.map(({ name }: { name: string }) => name).sort();
    const own = bytes.subarray(1);
    const name = names[(bytes[0] ?? 0) % names.length];
    const sha256 = createHash("sha256").update(own).digest("hex");
    for (const part of manifest.parts) {
      if (part.name === name) Object.assign(part, { bytes: own.length, sha256 });
    }
    const directory = withFile(home, `${cut}/${name}`, own);
    writeFileSync(join(directory, cut, "manifest.json"), seal(manifest).text);
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
  ...[torch, pickles, safetensors, onnx, osirisBytes, osirisFooter, osirisRows],
  ...[records, parts, deltas],
];
