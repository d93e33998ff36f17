// Shared parts of pictures: page, fonts and colours, and coordinates that are the same on every
// machine.

const style = `<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .title { font-size: 15px; font-weight: 600; }
  .small { font-size: 11.5px; fill: #59636e; }
  .bar { fill: #0969da; }
  .less { fill: #bc4c00; }
  .grid { stroke: #d1d9e0; }
  .target { stroke: #1f2328; stroke-width: 1.6; }
  .line { fill: none; stroke: #0969da; stroke-width: 2; }
  .other { fill: none; stroke: #bc4c00; stroke-width: 2; }
  .ideal { fill: none; stroke: #59636e; stroke-dasharray: 5 4; }
  .spread { stroke: #0969da; stroke-width: 1.2; }
</style>`;

/** The text of an SVG with its own background, so that it is readable on light and dark sites. */
export function svgOf(
  {
    width,
    height,
    title,
  }: { readonly width: number; readonly height: number; readonly title: string },
  parts: readonly string[],
): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    style,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="10"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

/** A rounded coordinate, so that the picture is the same on every machine. */
export function at(coordinate: number): number {
  return Math.round(coordinate * 10) / 10;
}

export function text(left: number, baseline: number, words: string, kind?: string): string {
  const own = kind === undefined ? "" : ` class="${kind}"`;
  return `<text x="${at(left)}" y="${at(baseline)}"${own}>${escaped(words)}</text>`;
}

function escaped(words: string): string {
  return words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

/** The rows that a bench printed with `--json`, one a line. */
export function rowsOfJson<Row extends { readonly name: string }>(lines: string): Row[] {
  return lines
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Partial<Row>)
    .filter((row): row is Row => row.name !== undefined);
}
