// Sealed JSON: readable text that contains its own hash, so that a change of any byte is detected.
//
//   { ...fields, "sha256": "<hash of this text with these 64 digits left out>" }

import { createHash } from "node:crypto";
import type { z } from "zod";
import { CheckpointCorruptError, InputUnusableError } from "../../src/errors/errors.ts";

/** The end of a sealed text, before and after the 64 digits. */
const [before, after] = ['"sha256": "', '"\n}\n'];
const tail = /^"sha256": "([0-9a-f]{64})"\n\}\n$/;
const tailLength = before.length + 64 + after.length;

/** The sealed text of `fields`, which are JSON and have no field `sha256`. */
export function seal(fields: object): { text: string; sha256: string } {
  const open = `${JSON.stringify({ ...fields, sha256: "" }, null, 2)}\n`;
  const sha256 = hashOf(open);
  return { text: open.slice(0, -after.length) + sha256 + after, sha256 };
}

/** A sealed text, with the seal, which is right. @throws CheckpointCorruptError */
export function openSeal(bytes: Uint8Array, path: string): { text: string; sha256: string } {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new CheckpointCorruptError(path, "it is not UTF-8", { cause });
  }
  const found = tail.exec(text.slice(-tailLength))?.[1];
  if (found === undefined) throw new CheckpointCorruptError(path, "it is cut short");
  const actual = hashOf(text.slice(0, -tailLength) + before + after);
  if (actual !== found) {
    throw new CheckpointCorruptError(path, `its hash is ${actual}, expected ${found}`);
  }
  return { text, sha256: found };
}

/** The value of a text whose seal is right. @throws CheckpointCorruptError */
export function parseSealed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The hash is right, so another program wrote the file.
    throw new CheckpointCorruptError(path, "it is not valid JSON", { cause });
  }
}

/** The value of a sealed text, with its `sha256`. @throws CheckpointCorruptError */
export function unseal(bytes: Uint8Array, path: string): unknown {
  return parseSealed(openSeal(bytes, path).text, path);
}

/**
 * Returns the record of a sealed text, checked by the schema of this version.
 * @throws CheckpointCorruptError; InputUnusableError where it is intact, but of another version
 */
export function unsealAs<Schema extends z.ZodType>(
  schema: Schema,
  version: number,
  bytes: Uint8Array,
  path: string,
): z.output<Schema> {
  return checkedAs(schema, version, unseal(bytes, path), path);
}

/** As `unsealAs`, of the value of the text. */
export function checkedAs<Schema extends z.ZodType>(
  schema: Schema,
  version: number,
  value: unknown,
  path: string,
): z.output<Schema> {
  const found = (value as { readonly version?: unknown } | null)?.version;
  // No damage: a caller that passed it over would lose what another Osiris has written.
  if (found !== version) {
    const message = `Expected version ${version} in ${path}, got ${found}`;
    throw new InputUnusableError(path, `${message}; use the Osiris that wrote it`);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new CheckpointCorruptError(path, `${issue?.path.join(".")}: ${issue?.message}`);
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
