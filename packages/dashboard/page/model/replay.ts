// Whether the steps that a run computed again after a recovery have the losses of the first time.
// The losses that events report for the same step, before and after the recovery, are compared bit
// by bit. A step that only one of them reports cannot be compared, and is not counted.

import { count } from "../../../../cli/support/format.ts";

/** A stretch of steps that was computed again, and what was found of it. */
export interface Replay {
  /** The first and the last of its steps. */
  readonly from: number;
  readonly to: number;
  /** Steps that were told of both times, and how many of them differ. */
  readonly compared: number;
  readonly different: number;
  /** Whether the run has come as far again as it was. */
  readonly isOver: boolean;
}

/** How a mark looks: green only where something was compared, and all of it was equal. */
export function replayKind({ compared, different }: Replay): "good" | "bad" | "open" {
  if (different > 0) return "bad";
  return compared === 0 ? "open" : "good";
}

/** What was found, after the words "steps 1,631 to 1,690". */
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

/** All stretches together, in a few words; undefined: there is none. */
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

/** Stretches that are kept: the newest. */
const stretchesMax = 50;

interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly compared: Set<number>;
  readonly different: Set<number>;
}

/** Figures by what they are of: "loss 120", "checkpoint 120". */
export class ReplayCheck {
  readonly #first = new Map<string, string>();
  readonly #max: number;
  readonly #stretches: Stretch[] = [];
  #furthest = 0;
  #reached = 0;

  constructor(max = 20_000) {
    this.#max = max;
  }

  /** A generation begins after this step. */
  begin(step: number): void {
    this.#reached = step;
    if (step >= this.#furthest) return;
    const [compared, different] = [new Set<number>(), new Set<number>()];
    this.#stretches.push({ from: step + 1, to: this.#furthest, compared, different });
    if (this.#stretches.length > stretchesMax) this.#stretches.shift();
  }

  /**
   * A figure was told. Returns whether the run had come past its step before, and whether it is
   * another figure than the first time.
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

  /** Oldest first. */
  get found(): readonly Replay[] {
    return this.#stretches.map(({ from, to, compared, different }, at) => ({
      ...{ from, to, compared: compared.size, different: different.size },
      isOver: at < this.#stretches.length - 1 || this.#reached >= to,
    }));
  }
}
