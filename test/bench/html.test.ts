import test from "ava";
import { htmlOf } from "../../bench/html.ts";
import type { BenchRow } from "../../bench/row.ts";

const row = (name: string, figure: number, more: Partial<BenchRow> = {}): BenchRow => {
  return { name, figure, unit: "GB/s", spread: [figure / 2, figure], ...more };
};

test("rows with one unit share a scale, and the mark of a limit is at its value", (t) => {
  const limited = row("wire.1", 50, { limit: 100, limitIs: "<memcpy>", ratio: 0.5 });
  const text = htmlOf("exchange", "a machine", [
    limited,
    row("wire.2", 25),
    row("b", 3, { unit: "ms" }),
  ]);
  const widths = [...text.matchAll(/class="bar"[^>]* width="([\d.]+)"/g)].map(([, one]) => one);
  t.deepEqual(widths, ["260.0", "130.0", "520.0"]);
  t.regex(text, /class="limit" x1="520\.0"/);
  t.regex(text, /50 % of 100 \(&lt;memcpy>\)/);
  t.notRegex(text, /<script|<memcpy/);
});
