// Tests of many cases that are alike: some of them on every change, all of them in the soak
// (`npm run test:soak`).

import { createHash } from "node:crypto";
import type { ExecutionContext } from "ava";
import { note, turnVariable } from "../runner/notes.ts";

/** Whether this is the soak. */
export const isSoak = process.env.SOAK === "1";

/** Every third case, or so; all of them in the soak. `what` names the cases. */
export function thinned<Case>(what: string, cases: readonly Case[], nth = 3): Case[] {
  if (isSoak) return [...cases];
  const some = cases.filter((_, i) => i % nth === 0);
  noteSoak(`${what}: ${some.length} of ${cases.length}`);
  return some;
}

/** How many times something random is tried: a few on every change, many in the soak. */
export function rounds(what: string, usual: number, soak: number): number {
  if (!isSoak) noteSoak(`${what}: ${usual} of ${soak}`);
  return isSoak ? soak : usual;
}

/** `some` of the cases on every change, all of them in the soak. */
export function inSoak<Case>(
  what: string,
  some: readonly Case[],
  all: readonly Case[],
): readonly Case[] {
  if (!isSoak && some.length < all.length) noteSoak(`${what}: ${some.length} of ${all.length}`);
  return isSoak ? all : some;
}

/**
 * Whether a whole test is left to the soak: another test, in the simulator or beside it, holds its
 * part of a promise on every change.
 */
export function leftToSoak(t: ExecutionContext): boolean {
  if (isSoak) return false;
  noteSoak(t.title);
  t.pass();
  return true;
}

/**
 * Whether a whole test is left to another change: of tests that are alike, `npm test` runs every
 * `nth`, by their titles and the last commit, so that the next commits run the others. The soak and
 * whoever names a file run all.
 */
export function waitsForTurn(t: ExecutionContext, nth = 2): boolean {
  const turn = process.env[turnVariable];
  if (isSoak || turn === undefined) return false;
  const own = createHash("sha256").update(t.title).digest().readUInt32LE();
  if ((own + Number(turn)) % nth === 0) return false;
  note({ kind: "skipped", title: t.title, reason: `alike tests take turns, this is ${turn}:` });
  t.pass();
  return true;
}

/** Notes what is left to the soak. */
function noteSoak(title: string): void {
  note({ kind: "skipped", title, reason: "`npm run test:soak` runs all of these:" });
}
