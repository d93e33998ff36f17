// File names in a store's directory (drawn in manifest.ts). They are apart from the records'
// schemas, because threads that need only the names load this file in a tenth of the time.

import { join } from "node:path";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { temporarySuffix } from "../../disk/durable-files.ts";

/** A path below a directory, or a key below the address of an object store. */
export function below(directory: string, ...names: readonly string[]): string {
  return isObjectAddress(directory) ? [directory, ...names].join("/") : join(directory, ...names);
}

/** The directory or address of one store, and the paths in it. */
export interface StorePaths {
  readonly job: string;
  readonly generations: string;
  readonly checkpoints: string;
  generation(generation: number): string;
  checkpoint(cut: number, generation: number): string;
  manifest(cut: number, generation: number): string;
  /** A file of a checkpoint. */
  file(cut: number, generation: number, name: string): string;
}

/** The paths below `directory`. */
export function pathsOf(directory: string): StorePaths {
  const generations = below(directory, "generations");
  const checkpoints = below(directory, "checkpoints");
  const file = (cut: number, generation: number, name: string) =>
    below(checkpoints, checkpointName(cut, generation), name);
  return {
    job: below(directory, "job.json"),
    generations,
    checkpoints,
    generation: (generation) => below(generations, `${digits(generation, 6)}.json`),
    checkpoint: (cut, generation) => below(checkpoints, checkpointName(cut, generation)),
    manifest: (cut, generation) => file(cut, generation, manifestName),
    file,
  };
}

/** The file that makes a checkpoint exist. */
export const manifestName = "manifest.json";

/**
 * Whether a name is valid for a part or its file, in a manifest, a message or a model file. It must
 * be a plain lower-case file name, so that no file is outside its checkpoint's directory.
 */
export function isPartName(name: string): boolean {
  const isPlain = /^[a-z0-9][a-z0-9._-]{0,199}$/.test(name);
  return isPlain && name !== manifestName && !name.endsWith(temporarySuffix);
}

/** Name of a checkpoint's directory: `000000400-g000012`. Names sort by cut. */
export function checkpointName(cut: number, generation: number): string {
  return `${digits(cut, 9)}-g${digits(generation, 6)}`;
}

/** Suffix of a damaged checkpoint's directory after it was renamed. */
export const damagedSuffix = ".damaged";

/** The cut and the generation in a checkpoint directory's name; undefined for a foreign name. */
export function parseCheckpointName(name: string): { cut: number; generation: number } | undefined {
  const match = /^(\d{9,15})-g(\d{6,15})$/.exec(name);
  return match === null ? undefined : { cut: Number(match[1]), generation: Number(match[2]) };
}

/** The number in the name of a generation record; undefined for a foreign name. */
export function parseGenerationName(name: string): number | undefined {
  const match = /^(\d{6,15})\.json$/.exec(name);
  return match === null ? undefined : Number(match[1]);
}

function digits(value: number, width: number): string {
  return String(value).padStart(width, "0");
}
