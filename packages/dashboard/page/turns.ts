// Drawing in turns: slow drawings are split into pieces, one for each frame, so that no frame waits
// for all of them. A piece that is requested again before its turn is drawn once, in its latest
// form.

import { Component, type VNode } from "./dom.ts";

const waiting = new Map<object, () => void>();
let isAsked = false;

/** Draws in one of the next frames; `whose` has at most one pending turn. */
export function inTurn(whose: object, draw: () => void): void {
  waiting.set(whose, draw);
  ask();
}

/** Cancels the pending turn of a drawing that is gone. */
export function leaveTurn(whose: object): void {
  waiting.delete(whose);
}

function ask(): void {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    const [next] = waiting;
    if (next === undefined) return;
    const [whose, draw] = next;
    waiting.delete(whose);
    if (waiting.size > 0) ask();
    draw();
  });
}

/** Longest time of work on a list before the page may draw. */
const sliceMs = 6;

/** Does `work` for each item, in slices of time; the page draws between slices. */
export async function eachInSlices<Item>(
  items: Iterable<Item>,
  work: (item: Item) => void,
): Promise<void> {
  let beganMs = performance.now();
  for (const item of items) {
    work(item);
    if (performance.now() - beganMs < sliceMs) continue;
    await new Promise((resume) => setTimeout(resume));
    beganMs = performance.now();
  }
}

interface InTurnProps {
  readonly draw: () => VNode | null;
  /** Draws without waiting for a turn, as a report is drawn once and as a whole. */
  readonly isNow: boolean;
}

/** A part of a view that waits for its turn, both at first and whenever the view is redrawn. */
export class InTurn extends Component<InTurnProps> {
  #isDue = this.props.isNow;

  override componentDidMount(): void {
    if (!this.#isDue) this.#wait();
  }

  override shouldComponentUpdate({ isNow }: InTurnProps): boolean {
    if (!isNow) this.#wait();
    return isNow;
  }

  override componentWillUnmount(): void {
    leaveTurn(this);
  }

  render() {
    return this.#isDue ? this.props.draw() : null;
  }

  #wait(): void {
    inTurn(this, () => {
      this.#isDue = true;
      this.forceUpdate();
    });
  }
}
