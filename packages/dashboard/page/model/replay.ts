// Checks that steps which a run computes again after a recovery have the same losses as before.
// Losses that events report for the same step before and after the recovery are compared bit by
// bit. A step that is reported only once cannot be compared, and is not counted.

import { count } from "../../../../cli/support/format.ts";

/** A stretch of steps that was computed again, with the result of the comparison. */
export interface Replay {
  /** The first and the last of its steps. */
  readonly from: number;
  readonly to: number;
  /** Steps that were reported both times, and the number of them that differ. */
  readonly compared: number;
  readonly different: number;
  /** Whether the run has reached its former step again. */
  readonly isOver: boolean;
}

/** The colour of a mark: "good" only where some steps were compared, and all were equal. */
export function replayKind({ compared, different }: Replay): "good" | "bad" | "open" {
  if (different > 0) return "bad";
  return compared === 0 ? "open" : "good";
}

/** The result in words, to follow "Steps 1,631 to 1,690 were computed again:". */
export function replayMark({ compared, different, isOver }: Replay): string {
  const steps = `${count(compared)} compared ${compared === 1 ? "step" : "steps"}`;
  if (different > 0) return `different at ${count(different)} of ${steps}`;
  if (compared > 0) return `equal at ${count(compared)} of ${steps}`;
  return isOver ? "no step was reported both times, so none is compared" : "none compared yet";
}

/** `Steps 1,631 to 1,690 were computed again: equal at 12 of 12 compared steps` */
export function replaySentence(replay: Replay): string {
  const { from, to, isOver } = replay;
  const steps = from === to ? `Step ${count(to)}` : `Steps ${count(from)} to ${count(to)}`;
  const were = isOver ? (from === to ? "was" : "were") : from === to ? "is being" : "are being";
  return `${steps} ${were} computed again: ${replayMark(replay)}`;
}

/** A summary of all stretches; undefined without any. */
export function replaySummary(
  all: readonly Replay[],
): { readonly text: string; readonly kind: "good" | "bad" | "open" } | undefined {
  const [first] = all;
  if (first === undefined) return undefined;
  const sum = (of: "compared" | "different") => all.reduce((sum, one) => sum + one[of], 0);
  const [compared, different] = [sum("compared"), sum("different")];
  const whole = { ...first, compared, different, isOver: all.every(({ isOver }) => isOver) };
  const text =
    all.length === 1
      ? replaySentence(first)
      : `${count(all.length)} stretches of steps computed again: ${replayMark(whole)}`;
  return { text, kind: replayKind(whole) };
}

/** Most stretches that are kept; the newest stay. */
const stretchesMax = 50;

interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly compared: Set<number>;
  readonly different: Set<number>;
}

/** Compares figures by kind and step, as in "loss 120" and "checkpoint 120". */
export class ReplayCheck {
  readonly #first = new Map<string, string>();
  readonly #max: number;
  readonly #stretches: Stretch[] = [];
  #furthest = 0;
  #reached = 0;

  constructor(max = 20_000) {
    this.#max = max;
  }

  /** Notes that a generation begins after this step. */
  begin(step: number): void {
    this.#reached = step;
    if (step >= this.#furthest) return;
    const [compared, different] = [new Set<number>(), new Set<number>()];
    this.#stretches.push({ from: step + 1, to: this.#furthest, compared, different });
    if (this.#stretches.length > stretchesMax) this.#stretches.shift();
  }

  /**
   * Notes a reported figure. Returns whether its step is computed again, and whether the figure
   * differs from the first one.
   */
  note(what: string, step: number, figure: unknown): { isAgain: boolean; isDifferent: boolean } {
    const key = `${what} ${step}`;
    const text = JSON.stringify(figure);
    const before = this.#first.get(key);
    const now = this.#stretches.at(-1);
    const isAgain = now !== undefined && step >= now.from && step <= now.to;
    this.#furthest = Math.max(this.#furthest, step);
    this.#reached = Math.max(this.#reached, step);
    if (before === undefined) {
      if (this.#first.size >= this.#max) {
        const [oldest] = this.#first.keys();
        if (oldest !== undefined) this.#first.delete(oldest);
      }
      this.#first.set(key, text);
      return { isAgain, isDifferent: false };
    }
    const isDifferent = isAgain && before !== text;
    if (isAgain) now.compared.add(step);
    if (isDifferent) now.different.add(step);
    return { isAgain, isDifferent };
  }

  /** The stretches so far, oldest first. */
  get found(): readonly Replay[] {
    return this.#stretches.map(({ from, to, compared, different }, at) => ({
      ...{ from, to, compared: compared.size, different: different.size },
      isOver: at < this.#stretches.length - 1 || this.#reached >= to,
    }));
  }
}
