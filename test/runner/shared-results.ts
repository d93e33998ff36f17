// Results that several test files compare with, computed once per run of `npm test`: the first file
// that needs a result writes it beside the notes of the run. Two files may compute a result at the
// same time; the later one replaces it with the same. In `npx ava FILE`, each process computes its
// own.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { deserialize, serialize } from "node:v8";
import { threadId } from "node:worker_threads";
import { notesVariable } from "./notes.ts";

const known = new Map<string, Promise<unknown>>();

/** The result of that name, computed by `compute` unless another test file already has. */
export function sharedResult<Result>(name: string, compute: () => Promise<Result>) {
  const result = (known.get(name) as Promise<Result> | undefined) ?? readOrCompute(name, compute);
  known.set(name, result);
  return result;
}

async function readOrCompute<Result>(
  name: string,
  compute: () => Promise<Result>,
): Promise<Result> {
  const notes = process.env[notesVariable];
  if (notes === undefined) return compute();
  const path = `${notes}-${name}`;
  try {
    return deserialize(readFileSync(path)) as Result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const result = await compute();
  const written = `${path}.${threadId}`;
  writeFileSync(written, serialize(result));
  renameSync(written, path); // No test file reads half a result.
  return result;
}
