// Whether what a run did again after a recovery came out as the first time: figures that were told
// twice for the same step, compared bit by bit. A step that was told once proves nothing.

/** What was found of a run's repeated steps. */
export interface Replay {
  /** Steps below this were done before; where it is not above `from`, nothing was done twice. */
  readonly from: number;
  readonly to: number;
  /** Figures that were told twice, and how many of them differ. */
  readonly compared: number;
  readonly different: number;
}

/** How a mark looks: green only where something was compared, and all of it was equal. */
export function replayKind({ compared, different }: Replay): "good" | "bad" | "open" {
  if (different > 0) return "bad";
  return compared === 0 ? "open" : "good";
}

/** The mark of a replay, in words. */
export function replayMark({ compared, different }: Replay): string {
  if (different > 0) return `${different} of ${compared} figures differ`;
  if (compared === 0) return "no step was told twice yet";
  return `bits equal (${compared} ${compared === 1 ? "figure" : "figures"} told twice)`;
}

/** Figures by what they are of: "loss 120", "checkpoint 120". */
export class ReplayCheck {
  readonly #first = new Map<string, string>();
  readonly #max: number;
  #compared = 0;
  #different = 0;
  #from = Number.POSITIVE_INFINITY;
  #to = 0;
  #furthest = 0;

  constructor(max = 20_000) {
    this.#max = max;
  }

  /** A generation begins at this step. */
  begin(step: number): void {
    if (step >= this.#furthest) return;
    this.#from = Math.min(this.#from, step);
    this.#to = this.#furthest;
  }

  /** A figure was told; whether the run had come past its step before. */
  note(what: string, step: number, figure: unknown): boolean {
    const key = `${what} ${step}`;
    const text = JSON.stringify(figure);
    const before = this.#first.get(key);
    const isRepeated = step <= this.#to && step > this.#from;
    this.#furthest = Math.max(this.#furthest, step);
    if (before === undefined) {
      if (this.#first.size >= this.#max) {
        const [oldest] = this.#first.keys();
        if (oldest !== undefined) this.#first.delete(oldest);
      }
      this.#first.set(key, text);
      return isRepeated;
    }
    if (isRepeated) {
      this.#compared++;
      if (before !== text) this.#different++;
    }
    return isRepeated;
  }

  /** Undefined: nothing was done twice. */
  get found(): Replay | undefined {
    if (this.#from === Number.POSITIVE_INFINITY) return undefined;
    const [compared, different] = [this.#compared, this.#different];
    return { from: this.#from, to: this.#to, compared, different };
  }
}
