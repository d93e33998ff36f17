// Tests of many similar cases: some of the cases run on every change, all of them in `npm run
// test:all`.

import { note, testAllVariable } from "../runner/notes.ts";

/** Whether this is `npm run test:all`. */
export const isTestAll = process.env[testAllVariable] !== undefined;

/** Returns about every `nth` case; all of them in `npm run test:all`. `what` names the cases. */
export function thinned<Case>(what: string, cases: readonly Case[], nth = 3): Case[] {
  if (isTestAll) return [...cases];
  const some = cases.filter((_, i) => i % nth === 0);
  noteSome(`${what}: ${some.length} of ${cases.length}`);
  return some;
}

/** The number of random trials: few on every change, many in `npm run test:all`. */
export function rounds(what: string, usual: number, all: number): number {
  if (!isTestAll) noteSome(`${what}: ${usual} of ${all}`);
  return isTestAll ? all : usual;
}

/** The distance between points of a sweep, such as crash points: 1 in `npm run test:all`. */
export function stride(what: string, usual: number): number {
  if (!isTestAll) noteSome(`${what}: one of ${usual}`);
  return isTestAll ? 1 : usual;
}

/** Returns `some` of the cases on every change, all of them in `npm run test:all`. */
export function someOrAll<Case>(
  what: string,
  some: readonly Case[],
  all: readonly Case[],
): readonly Case[] {
  if (!isTestAll && some.length < all.length) noteSome(`${what}: ${some.length} of ${all.length}`);
  return isTestAll ? all : some;
}

/** Notes that a test tries only some of its cases, which `npm run test:all` tries all. */
function noteSome(cases: string): void {
  note({ kind: "some", cases });
}
