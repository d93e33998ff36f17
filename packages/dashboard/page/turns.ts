// Drawing in turns: what takes long is drawn one piece a frame, so that no frame waits for all of
// it. A piece that is asked for again before its turn has come is drawn once, as it then is.

import { Component, type VNode } from "./dom.ts";

const waiting = new Map<object, () => void>();
let isAsked = false;

/** Draws in one of the next frames; `whose` has one turn at a time. */
export function inTurn(whose: object, draw: () => void): void {
  waiting.set(whose, draw);
  ask();
}

/** Gives the turn back: what was to be drawn is gone. */
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

/** Work on a list may take so long before the page has its turn. */
const sliceMs = 6;

/** Does something with each of a list, some of them at a time; between, the page draws. */
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
  /** It does not wait: a report is drawn once, as a whole. */
  readonly isNow: boolean;
}

/** A part of a view that waits for its turn, at first and whenever the view is drawn again. */
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
