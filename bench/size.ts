// npm run size: lines of each room beside its budget. A room that outgrows it is read again, and
// made smaller or given a better one, on purpose.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Lines that a room may have. */
const budgets: Readonly<Record<string, number>> = {
  "index.ts": 70,
  "src/data": 2200,
  "src/embedding": 900,
  "src/exchange": 1000,
  "src/kernels": 2000,
  "src/model": 700,
  "src/planner": 2200,
  "src/training": 1500,
  "src/wire": 3500,
  src: 15_000,
  storage: 2000,
  actors: 5500,
  chaos: 1500,
  cli: 2500,
  native: 3000,
  examples: 700,
  bench: 1500,
  test: 20_000,
};

function linesIn(path: string): number {
  if (/\.(ts|cc|h|sh)$/.test(path)) return readFileSync(path, "utf8").split("\n").length - 1;
  if (/\.\w+$/.test(path) || path.endsWith("build")) return 0;
  const names = readdirSync(path);
  return names.reduce((sum, name) => sum + linesIn(join(path, name)), 0);
}

let isOver = false;
for (const [room, budget] of Object.entries(budgets)) {
  const lines = linesIn(room);
  isOver ||= lines > budget;
  const mark = lines > budget ? "  over" : "";
  console.log(`${room.padEnd(14)} ${String(lines).padStart(6)} of ${budget}${mark}`);
}
process.exitCode = isOver ? 1 : 0;
