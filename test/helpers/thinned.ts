// Tests of many cases that are alike: some of them on every change, all of them in the soak
// (`npm run test:soak`).

import type { ExecutionContext } from "ava";
import { note } from "../runner/notes.ts";

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

/** Notes what is left to the soak. */
function noteSoak(title: string): void {
  note({ kind: "skipped", title, reason: "`npm run test:soak` runs all of these:" });
}
