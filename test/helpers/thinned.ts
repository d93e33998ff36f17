// Tests of many cases that are alike: some of them on every change, all of them by command.

/** Every third of them; all with `SOAK=1`. */
export function thinned<Case>(cases: readonly Case[]): Case[] {
  return cases.filter((_, i) => i % 3 === 0 || process.env.SOAK === "1");
}
