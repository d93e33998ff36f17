// The vocabulary file of a `mapId`: texts, one per line, or pairs of ids. Its SHA-256 is part of
// the job, so that a run never resumes with a different vocabulary.

import { createHash } from "node:crypto";
import { createReadStream, readFileSync, type Stats, statSync } from "node:fs";
import { InputUnusableError } from "../../errors/errors.ts";
import { noTextBecause, utf8Of, withoutMark } from "../text/file-bytes.ts";
import type { Transform } from "./transform-options.ts";

/** A loaded vocabulary. */
export type Vocabulary =
  /** The line of each text, from 0 on; texts have one character per byte. */
  | { readonly form: "texts"; readonly places: ReadonlyMap<string, number> }
  /** Keys in ascending order, and the value of each. */
  | { readonly form: "pairs"; readonly keys: BigInt64Array; readonly values: BigInt64Array };

/** The options of a job that refer to a vocabulary. */
interface VocabularyFile {
  readonly vocabulary: string;
  readonly form: "texts" | "pairs";
  readonly sha256?: string | undefined;
}

/** Largest vocabulary file, in bytes, because it is held in memory. */
const bytesMax = 2 ** 30;

/**
 * Adds to each `mapId` the current hash of its file, unless the job names a hash.
 * @throws InputUnusableError if a file cannot be read
 */
export function withVocabularies(transforms: readonly Transform[]): Transform[] {
  return transforms.map((transform) => {
    if (transform.op !== "mapId" || transform.sha256 !== undefined) return transform;
    return { ...transform, sha256: hashOf(bytesOf(transform.vocabulary)) };
  });
}

/**
 * As `withVocabularies`, but asynchronous, for threads that must not block.
 * @throws InputUnusableError if a file cannot be read
 */
export function withHashes(transforms: readonly Transform[]): Promise<Transform[]> {
  return Promise.all(
    transforms.map(async (transform) => {
      if (transform.op !== "mapId" || transform.sha256 !== undefined) return transform;
      return { ...transform, sha256: await hashOfFile(transform.vocabulary) };
    }),
  );
}

async function hashOfFile(path: string): Promise<string> {
  checkFile(path);
  const hash = createHash("sha256");
  try {
    // `end` bounds the read of a file that grows meanwhile.
    for await (const bytes of createReadStream(path, { end: bytesMax })) hash.update(bytes);
  } catch (cause) {
    throw unusable(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
  return hash.digest("hex");
}

/**
 * The part of the transforms that determines samples: a vocabulary counts by its content, not by
 * its path.
 */
export function identityOf(transforms: readonly Transform[]): object[] {
  return transforms.map((transform) => {
    if (transform.op !== "mapId" || transform.sha256 === undefined) return transform;
    const { vocabulary: _path, ...rest } = transform;
    return rest;
  });
}

function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/**
 * Loads a vocabulary.
 * @throws InputUnusableError if the file cannot be read, differs from the job's hash, or has a bad
 * line
 */
export function readVocabulary({ vocabulary: path, form, sha256 }: VocabularyFile): Vocabulary {
  const bytes = bytesOf(path);
  if (sha256 !== undefined && hashOf(bytes) !== sha256) {
    throw unusable(path, "it is not the file of the job: its SHA-256 differs");
  }
  const fault = noTextBecause(bytes, "a vocabulary is read plain: unpack it");
  if (fault !== undefined) throw unusable(path, fault);
  const lines = withoutMark(utf8Of(bytes)).toString("latin1").split("\n");
  if (lines.at(-1) === "") lines.pop();
  const texts = lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  if (texts.length === 0) throw unusable(path, "it is empty");
  return form === "texts" ? textsOf(path, texts) : pairsOf(path, texts);
}

function bytesOf(path: string): Buffer {
  checkFile(path);
  try {
    return readFileSync(path);
  } catch (cause) {
    throw unusable(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

/** Checks a file before it is opened: a device has no end, and opening a pipe would block. */
function checkFile(path: string): void {
  let status: Stats;
  try {
    status = statSync(path);
  } catch (cause) {
    throw unusable(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (!status.isFile()) throw unusable(path, "it is no regular file");
  if (status.size > bytesMax) throw unusable(path, `it has more than ${bytesMax} bytes`);
}

function textsOf(path: string, texts: readonly string[]): Vocabulary {
  const places = new Map<string, number>();
  for (const [place, text] of texts.entries()) {
    const line = `line ${place + 1}`;
    if (text === "") throw unusable(path, `${line} is empty`);
    const first = places.get(text);
    if (first !== undefined) throw unusable(path, `${line} is the text of line ${first + 1} again`);
    places.set(text, place);
  }
  return { form: "texts", places };
}

function pairsOf(path: string, lines: readonly string[]): Vocabulary {
  const keys = new BigInt64Array(lines.length);
  const values = new BigInt64Array(lines.length);
  for (const [i, line] of lines.entries()) {
    const [, key, value] = /^(-?\d{1,19})[\t,](-?\d{1,19})$/.exec(line) ?? [];
    if (key === undefined || value === undefined || !fits(key) || !fits(value)) {
      const wanted = "two integers of 64 bits with a tab or a comma between them";
      throw unusable(path, `expected line ${i + 1} to be ${wanted}`);
    }
    keys[i] = BigInt(key);
    values[i] = BigInt(value);
    if (i > 0 && (keys[i] as bigint) <= (keys[i - 1] as bigint)) {
      throw unusable(path, `expected line ${i + 1} to have a greater id than the line before it`);
    }
  }
  return { form: "pairs", keys, values };
}

function fits(text: string): boolean {
  const value = BigInt(text);
  return BigInt.asIntN(64, value) === value;
}

function unusable(path: string, why: string, cause?: unknown): InputUnusableError {
  return new InputUnusableError(path, `Cannot use the vocabulary ${path}: ${why}`, { cause });
}
