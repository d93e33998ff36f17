// A table of any length of which only the rows in sight are in the document, and some beside them.
// It scrolls by itself, with wheel and keys; screen readers are told how many rows there are, and
// which of them each one is. Every row is as high as the first: cells do not wrap.
//
// The browser's own search finds rows in sight alone: a list has a filter beside it.

import type { VNode } from "preact";
import { Component, html } from "./dom.ts";
import { inTurn, leaveTurn } from "./turns.ts";

/** Rows beyond what is in sight, on each side, so that a scroll finds them drawn. */
const besideMax = 10;
/** Until the first row was measured. */
const usualHeight = 32;

export interface WindowedProps<Row> {
  /** What it is a table of, for who listens. */
  readonly label: string;
  /** Titles, and widths in characters. */
  readonly columns: readonly (readonly [title: string, width: number])[];
  /** The table is drawn again when these are others. */
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The cells of a row, the first as its head. */
  readonly cells: (row: Row) => readonly VNode[];
}

interface State {
  readonly first: number;
  readonly count: number;
}

/** Which rows are in the document when a list is scrolled so far; all in pixels. */
export function rowsInSight(
  { scrolled, height, rowHeight }: { scrolled: number; height: number; rowHeight: number },
  rows: number,
): State {
  const count = Math.ceil(height / rowHeight) + 2 * besideMax;
  // In steps, so that most scrolling draws nothing.
  const top = besideMax * Math.floor(scrolled / rowHeight / besideMax) - besideMax / 2;
  return { first: Math.max(0, Math.min(top, rows - count)), count };
}

export class Windowed<Row> extends Component<WindowedProps<Row>, State> {
  override state: State = { first: 0, count: besideMax }; // The others in a later frame.
  #place: HTMLElement | null = null;
  #rowHeight = usualHeight;
  #watch: ResizeObserver | undefined;

  override componentDidMount(): void {
    const place = this.#place;
    if (place === null) return;
    this.#rowHeight =
      place.querySelector<HTMLElement>("tr[aria-rowindex]")?.offsetHeight || usualHeight;
    this.#watch = new ResizeObserver(() => inTurn(this, () => this.#look()));
    this.#watch.observe(place);
  }

  override componentWillUnmount(): void {
    this.#watch?.disconnect();
    leaveTurn(this);
  }

  override shouldComponentUpdate(next: WindowedProps<Row>, state: State): boolean {
    return next.rows !== this.props.rows || state !== this.state;
  }

  override componentDidUpdate(): void {
    this.#look(); // A filter may have left fewer rows than it was scrolled by.
  }

  render() {
    const { label, columns, rows, keyOf, cells } = this.props;
    const first = Math.min(this.state.first, Math.max(0, rows.length - this.state.count));
    const shown = rows.slice(first, first + this.state.count);
    const gap = (of: string, count: number) =>
      count <= 0
        ? null
        : html`<tr key=${of} aria-hidden="true" style=${{ height: `${count * this.#rowHeight}px` }}></tr>`;
    const width = columns.reduce((sum, [, own]) => sum + own, 0);
    return html`<div class="scroll window" role="region" tabIndex="0" aria-label=${label}
      onScroll=${() => this.#look()} ref=${(place: HTMLElement | null) => {
        this.#place = place;
      }}><table aria-rowcount=${rows.length + 1} style=${{ minWidth: `${width}ch` }}>
      <colgroup>${columns.map(([, own]) => html`<col style=${{ width: `${(100 * own) / width}%` }} />`)}</colgroup>
      <thead><tr aria-rowindex="1">${columns.map(([title]) => html`<th scope="col">${title}</th>`)}</tr></thead>
      <tbody>${gap("above", first)}${shown.map(
        (row, at) =>
          html`<tr key=${`row ${keyOf(row)}`} aria-rowindex=${first + at + 2}>${cells(row)}</tr>`,
      )}${gap("below", rows.length - first - shown.length)}</tbody></table></div>`;
  }

  #look(): void {
    const place = this.#place;
    if (place === null) return;
    const scrolled = { scrolled: place.scrollTop, height: place.clientHeight };
    const next = rowsInSight({ ...scrolled, rowHeight: this.#rowHeight }, this.props.rows.length);
    const { first, count } = this.state;
    if (next.first !== first || next.count !== count) this.setState(next);
  }
}
