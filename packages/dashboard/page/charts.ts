// Charts: uPlot in a frame that has a name for screen readers, follows the page's width and
// colours, and saves itself as a PNG. With several charts, each frame of the browser draws one.

import uPlot from "uplot";
import { Component, html } from "./dom.ts";
import { inTurn, leaveTurn } from "./turns.ts";

/** A curve of a chart. */
export interface Curve {
  readonly label: string;
  /** One value for each of the chart's `xs`; null: no point. */
  readonly values: readonly (number | null)[];
  readonly dash?: readonly number[];
  /** Draws points without lines between them. */
  readonly isDots?: boolean;
}

/** Something that happened at an x. */
export interface ChartEvent {
  readonly x: number;
  readonly text: string;
  readonly isFailure: boolean;
}

export interface ChartProps {
  /** Name of the chart in the address of a report, and of its PNG. */
  readonly id: string;
  readonly title: string;
  readonly xs: readonly number[];
  readonly xLabel: string;
  readonly curves: readonly Curve[];
  /** Stacks each curve on the one before. */
  readonly isStacked?: boolean;
  readonly isLogX?: boolean;
  readonly unit?: string;
  /** Lines across the curves, at steps at which something happened. */
  readonly events?: readonly ChartEvent[];
  /** Shaded stretches: steps that were computed again. */
  readonly bands?: readonly { readonly from: number; readonly to: number }[];
  /** A mark beside the title. */
  readonly mark?: { readonly text: string; readonly kind: "good" | "bad" | "open" } | undefined;
  /** Upper end of the y axis; higher values are cut off. */
  readonly yMax?: number;
}

/**
 * From this many points on, lines are one pixel wide: wider ones take three times as long to paint.
 */
const denseFrom = 300;

/** Usual height of a plot, in pixels. */
const usualHeight = 220;
/** Height in pixels of the legend and the frame's edge below a plot. */
const belowPlot = 56;

const palette = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];

const colour = (name: string) => getComputedStyle(document.body).getPropertyValue(name).trim();

export class Chart extends Component<ChartProps> {
  #place: HTMLElement | null = null;
  #plot: uPlot | undefined;
  #shape = "";
  #watch: ResizeObserver | undefined;
  readonly #dark = matchMedia("(prefers-color-scheme: dark)");
  readonly #recolour = () => {
    this.#shape = "";
    this.#drawInTurn();
  };

  override componentDidMount(): void {
    this.#dark.addEventListener("change", this.#recolour);
    this.#watch = new ResizeObserver(() => this.#resize());
    if (this.#place !== null) this.#watch.observe(this.#place);
    this.#drawInTurn();
  }

  override componentDidUpdate(): void {
    this.#drawInTurn();
  }

  override componentWillUnmount(): void {
    leaveTurn(this);
    this.#dark.removeEventListener("change", this.#recolour);
    this.#watch?.disconnect();
    this.#plot?.destroy();
  }

  render() {
    const { id, title, xs, mark, events = [] } = this.props;
    const marked = events.map(({ x, text }) => `; ${text} at ${short(x)}`).join("");
    const name = `${title}: ${xs.length} points; last: ${this.#lastValues().join(", ")}${marked}`;
    return html`<figure class="chart" id=${`chart-${id}`}>
      <figcaption>
        <span class="chart-title">${title}</span>
        ${mark === undefined ? null : html`<span class=${`mark ${mark.kind}`}>${mark.text}</span>`}
        <button type="button" class="small" aria-label=${`Save ${title} as PNG`}
          onClick=${() => this.#save()}>PNG</button>
      </figcaption>
      <div class="chart-place" role="img" aria-label=${name}
        ref=${(place: HTMLElement | null) => {
          this.#place = place;
        }}></div>
    </figure>`;
  }

  /** Label and last value of each curve, as in `loss 0.21`. */
  #lastValues(): string[] {
    const { curves, unit = "" } = this.props;
    return curves.map(
      ({ label, values }) => `${label} ${short(values.findLast((one) => one !== null))}${unit}`,
    );
  }

  /**
   * Height of the plot; in the picture of one chart alone, all the space that the window has left.
   */
  #height(): number {
    const isAlone = document.querySelector(`body[data-only] #chart-${this.props.id}.only`) !== null;
    const top = this.#place?.getBoundingClientRect().top ?? 0;
    const window = Number(document.body.dataset.height) || innerHeight;
    if (isAlone) return Math.max(usualHeight, window - top - belowPlot);
    return usualHeight;
  }

  #drawInTurn(): void {
    inTurn(this, () => this.#draw());
  }

  #draw(): void {
    const place = this.#place;
    if (place === null) return;
    const { curves, xs } = this.props;
    const data = this.#data();
    const labels = curves.map(({ label }) => label);
    const shape = JSON.stringify([labels, this.props.isStacked === true, xs.length > denseFrom]);
    if (this.#plot !== undefined && shape === this.#shape) {
      this.#resize();
      this.#plot.setData(data);
      return;
    }
    this.#plot?.destroy();
    this.#plot = undefined;
    this.#shape = shape;
    if (xs.length === 0) return;
    this.#plot = new uPlot(this.#options(place), data, place);
  }

  #data(): uPlot.AlignedData {
    const { xs, curves, isStacked } = this.props;
    if (isStacked !== true) return [xs as number[], ...curves.map((one) => [...one.values])];
    // The highest sum is drawn first, so that lower ones cover it.
    const sums = xs.map(() => 0);
    const stacked = curves.map(({ values }) => {
      for (const [at, value] of values.entries()) sums[at] = (sums[at] ?? 0) + (value ?? 0);
      return [...sums];
    });
    return [xs as number[], ...stacked.reverse()];
  }

  #options(place: HTMLElement): uPlot.Options {
    const { curves, xs, isStacked, isLogX, xLabel, unit = "" } = this.props;
    const yRange = (_: uPlot, low: number, high: number): uPlot.Range.MinMax => {
      const { yMax } = this.props;
      if (yMax !== undefined) return [0, yMax];
      return uPlot.rangeNum(isStacked === true ? 0 : low, high, 0.1, true) as uPlot.Range.MinMax;
    };
    const [text, grid] = [colour("--text-2"), colour("--line")];
    const axis = {
      stroke: text,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1 },
    };
    const shown = curves.map((curve, at) => ({
      curve,
      stroke: colour(palette[at % palette.length] ?? ""),
    }));
    if (isStacked === true) shown.reverse();
    return {
      width: Math.max(240, place.clientWidth),
      height: this.#height(),
      legend: { live: true },
      cursor: { points: { size: 6 } },
      hooks: {
        drawAxes: [(plot) => this.#drawBands(plot)],
        draw: [(plot) => this.#drawEvents(plot)],
        setLegend: [showLast],
      },
      scales: {
        x: { time: false, ...(isLogX === true ? { distr: 3 as const } : {}) },
        y: { range: yRange },
      },
      axes: [
        { ...axis, label: xLabel, labelSize: 18, size: 36 },
        { ...axis, size: 64 },
      ],
      series: [
        { label: xLabel },
        ...shown.map(({ curve, stroke }) => ({
          label: curve.label,
          stroke,
          width: xs.length > denseFrom ? 1 : 1.5,
          spanGaps: true,
          ...(curve.dash === undefined ? {} : { dash: [...curve.dash] }),
          ...(curve.isDots === true ? { points: { show: true, size: 6 } } : {}),
          ...(isStacked === true ? { fill: stroke } : {}),
          // The plot of a stacked curve has sums: the legend shows the curve's own value.
          value: (_: uPlot, value: number | null, at: number, index: number | null) => {
            const curve = this.props.curves.at(-at);
            return `${short(isStacked === true ? curve?.values[index ?? -1] : value)}${unit}`;
          },
        })),
      ],
    };
  }

  #resize(): void {
    const height = this.#height();
    const width = this.#place?.clientWidth ?? 0;
    const plot = this.#plot;
    if (plot === undefined || width < 240) return;
    if (width !== plot.width || height !== plot.height) plot.setSize({ width, height });
  }

  #drawBands(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = colour("--band");
    for (const { from, to } of this.props.bands ?? []) {
      const [left, right] = [from, to].map((x) => plot.valToPos(x, "x", true));
      const begin = Math.max(bbox.left, left ?? 0);
      const end = Math.min(bbox.left + bbox.width, right ?? 0);
      if (end > begin) ctx.fillRect(begin, bbox.top, end - begin, bbox.height);
    }
    ctx.restore();
  }

  /** Draws a line for each event, with its text where the previous text leaves room. */
  #drawEvents(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const scale = ctx.canvas.width / plot.width;
    ctx.save();
    ctx.font = `${Math.round(11 * scale)}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    ctx.lineWidth = Math.round(scale);
    ctx.setLineDash([4 * scale, 3 * scale]);
    let wordsEnd = 0;
    for (const { x, text, isFailure } of this.props.events ?? []) {
      const at = plot.valToPos(x, "x", true);
      if (!(at >= bbox.left && at <= bbox.left + bbox.width)) continue;
      ctx.strokeStyle = ctx.fillStyle = colour(isFailure ? "--bad" : "--text-2");
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      const width = ctx.measureText(text).width + 8 * scale;
      const isLeft = at + width > bbox.left + bbox.width;
      const begin = isLeft ? at - width + 4 * scale : at + 4 * scale;
      if (begin < wordsEnd) continue;
      ctx.fillText(text, begin, bbox.top + 2 * scale);
      wordsEnd = begin + width;
    }
    ctx.restore();
  }

  /**
   * Saves the canvas on the page's background, with the title above and the curves' names below.
   */
  #save(): void {
    const plot = this.#plot;
    if (plot === undefined) return;
    const { id, title } = this.props;
    const from = plot.ctx.canvas;
    const scale = from.width / plot.width;
    const head = Math.round(28 * scale);
    const legend = Math.round(22 * scale);
    const canvas = document.createElement("canvas");
    canvas.width = from.width;
    canvas.height = from.height + head + legend;
    const context = canvas.getContext("2d");
    if (context === null) return;
    context.fillStyle = colour("--page");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = colour("--text");
    context.font = `${Math.round(14 * scale)}px system-ui, sans-serif`;
    context.fillText(title, 10 * scale, 19 * scale);
    context.drawImage(from, 0, head);
    context.font = `${Math.round(12 * scale)}px system-ui, sans-serif`;
    let left = 10 * scale;
    for (const [at, text] of this.#lastValues().entries()) {
      context.fillStyle = colour(palette[at % palette.length] ?? "");
      context.fillRect(left, head + from.height + 4 * scale, 10 * scale, 10 * scale);
      context.fillStyle = colour("--text");
      context.fillText(text, left + 15 * scale, head + from.height + 14 * scale);
      left += context.measureText(text).width + 32 * scale;
    }
    canvas.toBlob((blob) => {
      if (blob === null) return;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${id}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
}

/** Shows the last values in the legend while the pointer is not on the plot. */
function showLast(plot: uPlot): void {
  const last = (plot.data[0]?.length ?? 0) - 1;
  if (last < 0 || (plot.legend.idx ?? null) !== null) return;
  const idxs = plot.data.map((values, at) => {
    return at === 0 ? last : Array.from(values).findLastIndex((one) => (one ?? null) !== null);
  });
  plot.setLegend({ idxs }, false);
  plot.legend.idx = null;
}

/** A value in at most four significant digits, for the legend. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

/** Points sorted by x: steps that were computed again come between the former ones. */
export function ordered(points: readonly (readonly number[])[]): (readonly number[])[] {
  return [...points].sort(([a = 0], [b = 0]) => a - b);
}

/** Joins curves whose points are at different steps over one x axis. */
export function joined(
  curves: readonly { readonly label: string; readonly points: readonly (readonly number[])[] }[],
): { xs: number[]; values: (number | null)[][] } {
  const xs = [...new Set(curves.flatMap(({ points }) => points.map(([x = 0]) => x)))].sort(
    (a, b) => a - b,
  );
  const places = new Map(xs.map((x, at) => [x, at]));
  const values = curves.map(({ points }) => {
    const ys: (number | null)[] = xs.map(() => null);
    for (const [x = 0, y = Number.NaN] of points) {
      ys[places.get(x) ?? 0] = Number.isFinite(y) ? y : null;
    }
    return ys;
  });
  return { xs, values };
}
