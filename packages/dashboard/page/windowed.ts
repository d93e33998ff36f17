// A table of any length, of which only the visible rows and some around them are in the document.
// It scrolls by itself, with wheel and keys; screen readers get the number of rows, and the index
// of each row. Every row is as high as the first, as cells do not wrap.
//
// The browser's own search finds only rows in the document: a list therefore has a filter.

import type { VNode } from "preact";
import { Component, html } from "./dom.ts";
import { inTurn, leaveTurn } from "./turns.ts";

/** Rows drawn beyond the visible ones on each side, so that scrolling finds them drawn. */
const besideMax = 10;
/** Assumed height of a row in pixels, until the first row is measured. */
const usualHeight = 32;

export interface WindowedProps<Row> {
  /** Name of the table for screen readers. */
  readonly label: string;
  /** Titles, and widths in characters. */
  readonly columns: readonly (readonly [title: string, width: number])[];
  /** The rows; the table is redrawn when this is another array. */
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The cells of a row; the first is its header. */
  readonly cells: (row: Row) => readonly VNode[];
}

interface State {
  readonly first: number;
  readonly count: number;
}

/** The rows to have in the document for a scroll position; all lengths are in pixels. */
export function rowsInSight(
  { scrolled, height, rowHeight }: { scrolled: number; height: number; rowHeight: number },
  rows: number,
): State {
  const count = Math.ceil(height / rowHeight) + 2 * besideMax;
  // In steps, so that most scroll events draw nothing.
  const top = besideMax * Math.floor(scrolled / rowHeight / besideMax) - besideMax / 2;
  return { first: Math.max(0, Math.min(top, rows - count)), count };
}

export class Windowed<Row> extends Component<WindowedProps<Row>, State> {
  override state: State = { first: 0, count: besideMax }; // A later frame draws the others.
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
    this.#look(); // A filter may leave fewer rows than the table was scrolled by.
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
