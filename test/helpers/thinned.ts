// Tests of many cases that are alike: some of them on every change, all of them by command.

/** Every third of them, or so; all with `SOAK=1`. */
export function thinned<Case>(cases: readonly Case[], nth = 3): Case[] {
  return cases.filter((_, i) => i % nth === 0 || process.env.SOAK === "1");
}
