// Draws the timeline of a simulated step: a row for each simulated device, with its tasks and
// waits, and below them the flights to the device.

import { figure } from "../../../cli/support/format.ts";
import { at, svgOf, text } from "../../../cli/views/svg.ts";
import type { Prediction, Span } from "../model.ts";

const [width, left, right, top, rowHeight] = [960, 96, 936, 96, 46] as const;
/** Devices that are drawn. */
const rowsMax = 12;
/** Narrowest bar with a name, in pixels for each letter. */
const letter = 6.4;

/** The colour of a task: that of the first kind whose pattern matches the name of the task. */
const kinds = [
  { words: "dense layers", colour: "#0969da", tasks: /^(forward|backward|updateDense)/ },
  { words: "rows", colour: "#1a7f37", tasks: /^(lookup|updateRows|tiers)/ },
  { words: "ids and vectors", colour: "#8250df", tasks: /^(batch|ids|receive|send)/ },
  { words: "other work", colour: "#9a6700", tasks: /./ },
] as const;
const waitColour = "#d1d9e0";
const flightColour = "#bc4c00";

export function drawTimeline({ hardware, devices, hosts, steps }: Prediction): string {
  const shown = spansOfStep(steps.spans);
  const ranks = [...new Set(shown.map(({ rank }) => rank))].sort((a, b) => a - b).slice(0, rowsMax);
  const ofRanks = shown.filter(({ rank }) => ranks.includes(rank));
  const from = ofRanks.reduce((least, span) => Math.min(least, span.from), Infinity);
  const to = ofRanks.reduce((most, span) => Math.max(most, span.to), 0);
  const x = (time: number) => left + ((time - from) / (to - from)) * (right - left);
  const height = top + ranks.length * rowHeight + 34;
  const title = `A step on ${devices} devices of ${hosts} hosts, ${hardware}`;
  const rest = new Set(steps.spans.map(({ rank }) => rank)).size - ranks.length;
  const more = rest > 0 ? `; ${rest} more kinds of devices are not drawn` : "";
  return svgOf({ width, height, title }, [
    text(24, 30, title, "title"),
    text(24, 50, `predicted: ${figure(1000 * steps.step)} ms a step${more}`, "small"),
    ...legend(),
    ...ranks.flatMap((rank, row) => {
      const y = top + row * rowHeight;
      const some = ofRanks.filter((span) => span.rank === rank);
      return [text(24, y + 15, `device ${rank}`), ...some.flatMap((span) => bar(span, y, x))];
    }),
    ...axis({ from, to, x, height }),
  ]);
}

/** The spans of the middle step, and of its neighbours as far as they lie within its time. */
function spansOfStep(spans: readonly Span[]): Span[] {
  const numbers = [...new Set(spans.map(({ step }) => step))].sort((a, b) => a - b);
  const middle = numbers[Math.floor(numbers.length / 2)];
  const work = spans.filter(({ step, kind }) => step === middle && kind === "work");
  const from = work.reduce((least, span) => Math.min(least, span.from), Infinity);
  const to = work.reduce((most, span) => Math.max(most, span.to), 0);
  return spans
    .filter((span) => span.to > from && span.from < to)
    .map((span) => ({ ...span, from: Math.max(from, span.from), to: Math.min(to, span.to) }));
}

function bar({ task, kind, from, to }: Span, y: number, x: (time: number) => number): string[] {
  const [start, end] = [x(from), x(to)];
  const isFlight = kind === "flight";
  const colour =
    kind === "wait"
      ? waitColour
      : isFlight
        ? flightColour
        : kinds.find(({ tasks }) => tasks.test(task))?.colour;
  const [barTop, barHeight] = isFlight ? [y + 24, 6] : [y, 22];
  const size = `width="${at(end - start)}" height="${barHeight}"`;
  const isNamed = !isFlight && end - start > letter * task.length + 6;
  const ink = kind === "wait" ? "#1f2328" : "#ffffff";
  return [
    `<rect x="${at(start)}" y="${barTop}" ${size} fill="${colour}"><title>${task}</title></rect>`,
    ...(isNamed
      ? [
          `<text x="${at(start + 3)}" y="${y + 15}" style="font-size:11px;fill:${ink}">${task}</text>`,
        ]
      : []),
  ];
}

function legend(): string[] {
  const words = [
    ...kinds.map((kind) => [kind.words, kind.colour] as const),
    ["waits", waitColour] as const,
    ["flights", flightColour] as const,
  ];
  return words.flatMap(([name, colour], i) => {
    const start = left + 130 * i;
    return [
      `<rect x="${start}" y="66" width="12" height="12" fill="${colour}"/>`,
      text(start + 18, 76, name, "small"),
    ];
  });
}

interface Axis {
  readonly from: number;
  readonly to: number;
  readonly x: (time: number) => number;
  readonly height: number;
}

function axis({ from, to, x, height }: Axis): string[] {
  const tick = 10 ** Math.floor(Math.log10((to - from) / 2));
  const count = Math.floor((to - from) / tick);
  return Array.from({ length: count + 1 }, (_, i) => i * tick)
    .filter((_, i) => count <= 12 || i % 2 === 0)
    .flatMap((time) => [
      `<path class="grid" d="M${at(x(from + time))} ${top - 8}V${height - 30}"/>`,
      text(x(from + time) - 8, height - 14, `${Number((1000 * time).toPrecision(3))} ms`, "small"),
    ]);
}
