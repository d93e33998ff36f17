// Draws the picture of the README: who supervises whom, and where a row lies. `npm run draw --
// picture` writes it; a test compares the committed file with what this program draws.
//
// The tree is the one that docs/architecture.md draws, the times are those of docs/failure.md, and
// the sizes are the defaults of a job, so that the picture says nothing that they do not.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { tiersOptions } from "../../src/embedding/tables/tier-options.ts";

export const pictureFile = "docs/pictures/osiris.svg";

/** One actor of the supervision tree. */
interface TreeNode {
  readonly name: string;
  readonly depth: number;
  /** How soon its supervisor notices its failure; undefined where docs/failure.md has no row. */
  readonly noticed: string | undefined;
}

/** Actors that answer for a thread of their own. */
const withThread = new Set(["device", "tier", "writer", "reader", "bridge"]);

/** The row of docs/failure.md that tells about an actor, by how its first cell begins. */
const failureRows: Readonly<Record<string, string>> = {
  "cluster supervisor": "cluster supervisor",
  host: "host actor",
  device: "device actor",
  shard: "shard actor",
  tier: "tier's thread or actor",
  writer: "writer's thread or actor",
  reader: "reader's thread or actor",
  bridge: "bridge's thread or actor",
  "job service": "job service",
  "run queue": "run queue",
  "job supervisor": "job supervisor",
  "training coordinator": "training coordinator",
  "checkpoint coordinator": "checkpoint coordinator",
};

const width = 960;
const rowHeight = 25;
const treeTop = 84;
const indent = 24;
const noticedLeft = 396;
const memoryLeft = 560;

/** The whole picture, as the text of an SVG. */
export function drawPicture(): string {
  const nodes = readTree(readFileSync("docs/architecture.md", "utf8"));
  const height = treeTop + nodes.length * rowHeight + 4;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">`,
    "<title>The supervision tree of Osiris, and its memory hierarchy</title>",
    style,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="10"/>`,
    ...drawTree(nodes),
    ...drawMemory(height),
    "</svg>",
    "",
  ].join("\n");
}

// The page has its own background, so that the picture can be read on a light and on a dark site.
const style = `<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11.5px; fill: #59636e; }
  .line { fill: none; stroke: #8c959f; }
  .actor { fill: #ffffff; stroke: #0969da; stroke-width: 1.6; }
  .thread { fill: #0969da; stroke: #0969da; stroke-width: 1.6; }
  .box { fill: #f6f8fa; stroke: #d1d9e0; }
  .level { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; stroke: #3d444d; }
    .small { fill: #9198a1; }
    .line { stroke: #656c76; }
    .actor { fill: #0d1117; stroke: #4493f8; }
    .thread { fill: #4493f8; stroke: #4493f8; }
    .box { fill: #151b23; stroke: #3d444d; }
  }
</style>`;

/** The actors of the tree in docs/architecture.md, from the top, with the times of failure.md. */
function readTree(architecture: string): TreeNode[] {
  const [, block = ""] = /```\n(cluster supervisor\n[\s\S]*?)```/.exec(architecture) ?? [];
  const failures = readFileSync("docs/failure.md", "utf8").split("\n");
  const nodes = block
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [, branches = "", name = ""] = /^([│├└─ ]*)(\S+(?: \S+)*)/.exec(line) ?? [];
      const bare = name.replace(" …", "");
      return { name: bare, depth: branches.length / 3, noticed: noticedIn(failures, bare) };
    });
  if (nodes.length === 0) throw new Error("docs/architecture.md draws no supervision tree");
  return nodes;
}

/** The third cell of the row about an actor: after how long its failure is noticed. */
function noticedIn(failures: readonly string[], name: string): string | undefined {
  const start = failureRows[name];
  if (start === undefined) return undefined;
  const row = failures.find((line) => line.startsWith(`| ${start}`));
  if (row === undefined) throw new Error(`docs/failure.md has no row that begins with "${start}"`);
  const [, , , after = ""] = row.split("|");
  return (after.split(",")[0] ?? "").trim();
}

function drawTree(nodes: readonly TreeNode[]): string[] {
  const yOf = (index: number) => treeTop + index * rowHeight;
  const xOf = (depth: number) => 34 + depth * indent;
  const parts = [
    text(24, 34, "Supervision tree: every part may die", "title"),
    `<circle class="actor" cx="31" cy="52" r="5"/>`,
    text(42, 56, "actor on the main thread", "small"),
    `<circle class="thread" cx="201" cy="52" r="5"/>`,
    text(212, 56, "actor with a thread of its own", "small"),
    text(noticedLeft, 56, "failure noticed after", "small"),
  ];
  nodes.forEach(({ name, depth, noticed }, index) => {
    const [x, y] = [xOf(depth), yOf(index)];
    const parent = nodes.findLastIndex((other, at) => at < index && other.depth === depth - 1);
    if (parent !== -1) {
      const from = yOf(parent) + 6;
      parts.push(`<path class="line" d="M${xOf(depth - 1)} ${from}V${y}H${x - 6}"/>`);
    }
    const kind = withThread.has(name) ? "thread" : "actor";
    parts.push(`<circle class="${kind}" cx="${x}" cy="${y}" r="6"/>`);
    parts.push(text(x + 13, y + 4.5, name));
    if (noticed !== undefined) parts.push(text(noticedLeft, y + 4.5, noticed, "small"));
  });
  return parts;
}

/** Where a row lies: device memory, host memory, disk; and what survives all of them. */
function drawMemory(height: number): string[] {
  const { hbmBytes, ddrBytes, prefetch } = tiersOptions.parse({});
  const batches = prefetch === 1 ? "1 batch" : `${prefetch} batches`;
  const levels = [
    [
      "HBM",
      `${mebibytes(hbmBytes)} a device: 32-way cache of rows`,
      "the device's thread computes here",
    ],
    ["DDR", `${mebibytes(ddrBytes)} a device: cache of records`, "the tier's thread looks them up"],
    ["SSD", "RocksDB or files: every row ever updated", "the tier's thread reads sorted batches"],
    [
      "Checkpoint store",
      "every row and optimizer state of one step",
      "the writer's thread; commits atomically",
    ],
  ] as const;
  const step = (height + 14 - 72) / levels.length;
  const boxHeight = step - 38;
  const parts = [
    text(memoryLeft, 34, "Memory: where a row lies changes no bit", "title"),
    text(memoryLeft, 56, "a device is a CPU thread; HBM is its share of memory", "small"),
  ];
  levels.forEach(([name, what, who], index) => {
    const inset = 24 * (levels.length - 1 - index);
    const y = 72 + index * step;
    const x = memoryLeft + inset / 2;
    const boxWidth = width - memoryLeft - 24 - inset;
    parts.push(
      `<rect class="box" x="${x}" y="${y}" width="${boxWidth}" height="${boxHeight}" rx="6"/>`,
      text(x + 12, y + 19, name, "level"),
      text(x + 12, y + 37, what, "small"),
      text(x + 12, y + 53, who, "small"),
    );
    const [up, down] = arrows[index] ?? [];
    if (up === undefined || down === undefined) return;
    const [top, bottom] = [y + boxHeight + 6, y + step - 6];
    parts.push(
      arrow(memoryLeft + 60, bottom, top),
      text(memoryLeft + 68, (top + bottom) / 2 + 4, up.replace("BATCHES", batches), "small"),
      arrow(memoryLeft + 232, top, bottom),
      text(memoryLeft + 240, (top + bottom) / 2 + 4, down, "small"),
    );
  });
  return parts;
}

/** Between a level and the next one down: what travels up, what travels down. */
const arrows: readonly (readonly [string, string])[] = [
  ["rows, BATCHES ahead", "changed rows"],
  ["records not cached", "changed records"],
  ["a restore", "each cut"],
];

function arrow(x: number, from: number, to: number): string {
  const head = from < to ? -5 : 5;
  return `<path class="line" d="M${x} ${from}V${to}m-4 ${head}l4 ${-head}l4 ${head}"/>`;
}

function text(x: number, y: number, words: string, kind?: string): string {
  const escaped = words.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  return `<text x="${x}" y="${y}"${kind === undefined ? "" : ` class="${kind}"`}>${escaped}</text>`;
}

function mebibytes(bytes: number): string {
  return bytes >= 2 ** 30 ? `${bytes / 2 ** 30} GiB` : `${bytes / 2 ** 20} MiB`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(pictureFile, drawPicture());
}
