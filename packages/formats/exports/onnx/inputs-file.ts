// The file MODEL.onnx.json beside an ONNX model, from which a client computes the model's inputs:
// the rules of every column, and test vectors with which to check the client.

import { basename } from "node:path";
import {
  type Disk,
  InputUnusableError,
  InvalidOptionError,
  writeWhole,
} from "../../../../internal.ts";
import type { ExportedModel, ExportedTable } from "../exported-model.ts";
import { inputRulesOf } from "./input-rules.ts";
import { opset } from "./messages.ts";
import type { FeatureInput } from "./raw-ids.ts";
import { type ReadRow, type TestVectors, testVectors } from "./test-vectors.ts";

/** A report on the written file. */
export interface InputsFile {
  readonly file: string;
  /** Number of test vectors. */
  readonly vectors: number;
  /** Why the file has no test vectors; undefined: it has some. */
  readonly withoutVectors: string | undefined;
  /** If raw ids were requested: the features that take rows instead, and why. */
  readonly notRaw?: readonly { readonly feature: string; readonly why: string }[];
}

/** A table's location: its rows in float32, from byte `first` of a written file on. */
export interface WrittenTable {
  readonly table: ExportedTable;
  readonly file: string;
  readonly first: number;
}

/** Incremented with every change that affects clients. */
const version = 1;

/** Accepted difference of another runtime's predictions, which sums in another order. */
const tolerance = 1e-6;

/**
 * Writes `path.json` for the model at `path` with these inputs. `written`: where its tables are.
 * @throws InputUnusableError where the file cannot be written
 */
export async function writeInputs(
  disk: Disk,
  path: string,
  model: ExportedModel,
  inputs: readonly FeatureInput[],
  written: readonly WrittenTable[],
): Promise<InputsFile> {
  const file = `${path}.json`;
  const { step, digest, manifest } = model.notes;
  const about = { version, model: basename(path), opset, step: Number(step), digest, manifest };
  const vectors = vectorsOf(model, inputs, rowReader(disk, written));
  const isMade = typeof vectors !== "string";
  const content = isMade ? { tolerance, ...vectors } : { leftOut: vectors };
  const text = `${linesOf({ ...about, ...inputRulesOf(model, inputs), vectors: content }, 2)}\n`;
  await writeWhole(disk, file, async (out) => out.write(new TextEncoder().encode(text), 0));
  return {
    file,
    vectors: isMade ? vectors.records.length : 0,
    withoutVectors: isMade ? undefined : vectors,
    ...(inputs.some(({ raw }) => raw) && { notRaw: notRawOf(inputs) }),
  };
}

function notRawOf(inputs: readonly FeatureInput[]) {
  return inputs.flatMap(({ feature, notRaw: why }) => (why === undefined ? [] : { feature, why }));
}

/** JSON with one line per entry down to `depth`, so that each rule and each input is a line. */
function linesOf(value: unknown, depth: number): string {
  if (depth === 0 || typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) {
    const entries: string[] = value.map((entry) => linesOf(entry, depth - 1));
    return entries.length === 0 ? "[]" : `[\n${entries.join(",\n")}\n]`;
  }
  const known = Object.entries(value).filter(([, entry]) => entry !== undefined);
  const entries = known.map(([key, entry]) => {
    return `${JSON.stringify(key)}: ${linesOf(entry, depth - 1)}`;
  });
  return `{\n${entries.join(",\n")}\n}`;
}

/**
 * The test vectors, or the reason for having none: an export succeeds even where the job's
 * vocabularies are missing.
 */
function vectorsOf(
  model: ExportedModel,
  inputs: readonly FeatureInput[],
  readRow: ReadRow,
): TestVectors | string {
  try {
    return testVectors(model, inputs, readRow);
  } catch (error) {
    if (error instanceof InputUnusableError || error instanceof InvalidOptionError) {
      return error.message;
    }
    throw error;
  }
}

function rowReader(disk: Disk, written: readonly WrittenTable[]): ReadRow {
  return (table, row) => {
    const stored = written.find((one) => one.table === table);
    if (stored === undefined) throw new RangeError(`Table ${table.stored.spec.name} is in no file`);
    const values = new Float32Array(table.stored.spec.dim);
    const file = disk.open(stored.file, "read");
    try {
      file.read(new Uint8Array(values.buffer), stored.first + row * values.byteLength);
    } finally {
      file.close();
    }
    return values;
  };
}
