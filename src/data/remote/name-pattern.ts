// Glob patterns for names: `*` matches any characters, `?` one character. Jobs, and so their
// patterns, are untrusted: a regular expression with many stars could backtrack exponentially. This
// matcher backtracks to the last star only, so that its time is at most the pattern's length times
// the name's.

import { InputUnusableError } from "../../errors/errors.ts";

/** Whether a text is a pattern rather than a name. */
export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

/** Whether `pattern` matches the whole `name`. */
export function matchesName(pattern: string, name: string): boolean {
  let [at, of] = [0, 0];
  /** Index of the last star, and of the first character of the name after those that it matches. */
  let [star, rest] = [-1, 0];
  while (at < name.length) {
    const wanted = pattern[of];
    if (wanted === "*") {
      star = of++;
      rest = at;
    } else if (wanted === "?" || (wanted !== undefined && wanted === name[at])) {
      at++;
      of++;
    } else if (star >= 0) {
      of = star + 1;
      at = ++rest;
    } else return false;
  }
  while (pattern[of] === "*") of++;
  return of === pattern.length;
}

/** Most names that are matched for the paths of a job, because matching them blocks the thread. */
const namesMax = 1_000_000;

/** Counts the names that are matched for the paths of a job. */
export class NameCount {
  #names = 0;

  /** @throws InputUnusableError if there are too many */
  add(names: number, directory: string): void {
    this.#names += names;
    if (this.#names <= namesMax) return;
    const message = `Cannot read the data: its paths name more than ${namesMax} files to look at`;
    throw new InputUnusableError(directory, `${message}, with those of ${directory}`);
  }
}
