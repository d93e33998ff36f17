// Patterns for names: `*` stands for any characters, `?` for one. They come from jobs, and so from
// strangers: a regular expression of many stars would try every way to share a name among them.
// Here the last star alone is tried again, one character further, so that the time is that of the
// pattern's length times the name's.

import { InputUnusableError } from "../../errors/errors.ts";

/** Whether a text is a pattern, and no name. */
export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

/** Whether the whole `name` is one that `pattern` means. */
export function matchesName(pattern: string, name: string): boolean {
  let [at, of] = [0, 0];
  /** The last star, and the first character of the name that it does not stand for. */
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

/** Names that the paths of a job may have looked at: they are looked at while others wait. */
const namesMax = 1_000_000;

/** Counts the names that were looked at for the paths of a job. */
export class NameCount {
  #names = 0;

  /** @throws InputUnusableError where they are too many */
  add(names: number, directory: string): void {
    this.#names += names;
    if (this.#names <= namesMax) return;
    const message = `Cannot read the data: its paths name more than ${namesMax} files to look at`;
    throw new InputUnusableError(directory, `${message}, with those of ${directory}`);
  }
}
