// The process that reads mutated inputs, one of which may kill it. It reports the start and the end
// of each case on descriptor 3, as lines of JSON (`Told`).

import { mkdtempSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addonPath } from "../../src/ports/addon.ts";
import { changedBytes, changedValue, oneOf, streamOf } from "./mutate.ts";
import { isRefusal, type Target } from "./target.ts";

/** The work of a worker. */
export interface Plan {
  readonly seed: number;
  /** The name of the module with the targets, in this folder. */
  readonly catalogue: "targets" | "planted-targets";
  /** By target: the cases from `first` up to, not including, `end`. */
  readonly cases: Readonly<Record<string, readonly [first: number, end: number]>>;
  /** The folder for the inputs of findings. */
  readonly folder: string;
  /** The addon built with sanitizers; undefined: the usual addon. */
  readonly addon: string | undefined;
}

export type Told =
  | { readonly kind: "seeds"; readonly target: string }
  | {
      readonly kind: "case";
      readonly target: string;
      readonly number: number;
      /** The target's own maximum time. */
      readonly msMax?: number | undefined;
    }
  | { readonly kind: "end"; readonly isAccepted: boolean }
  | {
      readonly kind: "finding";
      readonly error: string;
      readonly stack: string;
      readonly file: string;
    };

/** Time that a target gets before the next one's turn. */
const turnMs = 200;
/** Limits of time and tries for shortening the input of a finding. */
const [shorterMs, shorterTries] = [2000, 300];

/** Writes a line synchronously, as the next case may end the process. */
const tell = (told: Told) => writeSync(3, `${JSON.stringify(told)}\n`);

/** The path of a file for the input of a case. */
export function fileOf(folder: string, target: string, seed: number, number: number): string {
  return join(folder, `${target.replace(/\W+/g, "-")}-seed-${seed}-case-${number}.bin`);
}

/** A target with its seeds, which are made once, before the first case. */
class Fed {
  readonly target: Target;
  readonly #seeds: readonly Uint8Array[];
  readonly #values: readonly unknown[];
  readonly #home: string;

  constructor(target: Target, seeds: readonly Uint8Array[], home: string) {
    this.target = target;
    this.#seeds = seeds;
    this.#values = seeds.flatMap((seed) => this.#valueOf(seed) ?? []);
    this.#home = home;
  }

  /** The input of a case. The first cases are the unmutated seeds. */
  input(seed: number, number: number): Uint8Array {
    const own = this.#seeds[number];
    if (own !== undefined) return own;
    const { name, values, mend } = this.target;
    const stream = streamOf(seed, name, number);
    const from = oneOf(stream, this.#seeds);
    const value = values && stream.below(4) > 0 ? this.#valueOf(from) : undefined;
    if (values !== undefined && value !== undefined) {
      return values.write(changedValue(stream, value, this.#values));
    }
    const bytes = changedBytes(stream, from, this.#seeds);
    return mend !== undefined && stream.below(4) > 0 ? mend(bytes) : bytes;
  }

  /** The outcome of an input; undefined: it was accepted, else the error. */
  async outcome(bytes: Uint8Array): Promise<unknown> {
    try {
      await this.target.read(bytes, this.#home);
      return undefined;
    } catch (error) {
      return error ?? new Error("nothing was thrown");
    }
  }

  #valueOf(seed: Uint8Array): unknown {
    try {
      return this.target.values?.parse(seed);
    } catch {
      return undefined;
    }
  }
}

async function readCase(fed: Fed, { seed, folder }: Plan, number: number): Promise<void> {
  const { target } = fed;
  tell({ kind: "case", target: target.name, number, msMax: target.caseMsMax });
  const bytes = fed.input(seed, number);
  const error = await fed.outcome(bytes);
  if (error !== undefined && !isRefusal(target, error)) {
    const file = fileOf(folder, target.name, seed, number);
    writeFileSync(file, await shortened(fed, bytes, signatureOf(error)));
    const stack = error instanceof Error ? stackOf(error) : String(error);
    tell({ kind: "finding", error: signatureOf(error), stack, file });
  } else tell({ kind: "end", isAccepted: error === undefined });
}

/** A text that is equal for errors with the same fault. */
function signatureOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}`.slice(0, 300) : String(error);
}

function stackOf(error: Error): string {
  const { cause, stack = "" } = error;
  const own = stack.split("\n").slice(1, 9).join("\n");
  return cause instanceof Error
    ? `${own}\n  by ${cause.name}: ${cause.message}\n${stackOf(cause)}`
    : own;
}

/** The input without the blocks that are not needed for the same error. */
async function shortened(fed: Fed, bytes: Uint8Array, signature: string): Promise<Uint8Array> {
  const until = Date.now() + shorterMs;
  let shortest = bytes;
  let tries = 0;
  for (let block = bytes.length >> 1; block > 0; block >>= 1) {
    for (let at = 0; at < shortest.length; ) {
      if (Date.now() > until || ++tries > shorterTries) return shortest;
      const cut = Buffer.concat([shortest.subarray(0, at), shortest.subarray(at + block)]);
      const error = await fed.outcome(cut);
      if (error !== undefined && signatureOf(error) === signature) shortest = cut;
      else at += block;
    }
  }
  return shortest;
}

async function work(plan: Plan): Promise<void> {
  const { targets } = (await import(`./${plan.catalogue}.js`)) as { targets: readonly Target[] };
  const root = mkdtempSync(join(tmpdir(), "osiris-fuzz-"));
  process.on("exit", () => rmSync(root, { recursive: true, force: true }));
  const left = new Map<Fed, number>();
  for (const [i, target] of targets.entries()) {
    const cases = plan.cases[target.name];
    if (cases === undefined) continue;
    tell({ kind: "seeds", target: target.name });
    const home = mkdtempSync(join(root, `${i}-`));
    left.set(new Fed(target, await target.seeds(home), home), cases[0]);
  }
  while (left.size > 0) {
    for (const [fed, first] of left) {
      const end = plan.cases[fed.target.name]?.[1] ?? 0;
      const until = Date.now() + turnMs;
      let number = first;
      for (; number < end && Date.now() < until; number++) await readCase(fed, plan, number);
      if (number < end) left.set(fed, number);
      else left.delete(fed);
    }
  }
}

/** Makes the process load the addon from the file `path`. */
function loadAddonFrom(path: string): void {
  const load = process.dlopen;
  process.dlopen = (module: object, file: string, flags?: number) =>
    load(module, file === addonPath() ? path : file, flags ?? 1);
}

const given = process.argv[2];
if (given !== undefined && process.argv[1]?.endsWith("worker.js")) {
  const plan: Plan = JSON.parse(given);
  if (plan.addon !== undefined) loadAddonFrom(plan.addon);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => {});
  process.on("disconnect", () => process.exit());
  await work(plan);
  process.exit();
}
