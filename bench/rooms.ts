// The rooms of the core and the packages: which way imports point between them, and how large the
// core, each package and each other top folder may grow. The tidy test (test/tidy.test.ts) holds
// the order, `npm run size` the budgets.

/**
 * The rooms of the core from the bottom up. A file imports files of its own room, and of rooms
 * further up in this list. A room within a room counts by itself.
 */
const coreRooms: readonly string[] = [
  ...[
    "src/errors",
    "src/ports",
    "src/objects",
    "storage/disk",
    "src/kernels",
    "src/data",
    "src/planner",
  ],
  ...["src/wire", "src/exchange", "actors/runtime", "storage/cluster", "src/embedding"],
  ...["src/model", "src/serving", "src/training", "src/asynchronous", "src/job"],
  ...["storage/tiers", "storage/checkpoints", "storage/model"],
  ...["actors/threads", "actors/calibration", "actors/doctor", "actors/host", "actors/run"],
  ...["actors/jobs", "actors/observe", "actors/client", "actors/cluster", "actors/verify"],
  ...["chaos", "internal.ts"],
];

/** The packages, each beside its own tests, benches and commands; an import points up this list. */
const packages: readonly string[] = [
  ...["packages/formats", "packages/serve", "packages/ingest", "packages/dashboard"],
  "packages/sharding",
  "packages/what-if",
];

/** Everything that uses the core and the packages, from the bottom up. */
const users: readonly string[] = ["index.ts", "cli", "examples", "bench", "docs", "test"];

const rooms: readonly string[] = [...coreRooms, ...packages, ...users];
// The longest names first, so that a room within a room is found before the outer one.
const byLength = [...rooms, "native"].sort((one, other) => other.length - one.length);

/** The room that a file lies in; undefined: none. */
export function roomOf(path: string): string | undefined {
  return byLength.find((room) => path === room || path.startsWith(`${room}/`));
}

/**
 * Commands, benches and tests of a package use the command line, the bench harness and helpers; a
 * page runs in a browser, which cannot load the core.
 */
function isBesideCode(path: string): boolean {
  return /^packages\/[\w-]+\/(commands|bench|test|page)\//.test(path);
}

/** Whether a file of `room` may import a file of `other`. */
function mayImport(room: string, other: string): boolean {
  return rooms.indexOf(other) !== -1 && rooms.indexOf(other) <= rooms.indexOf(room);
}

/** Whether one file may import another. */
export function isAllowed(path: string, other: string): boolean {
  const [room = "", otherRoom = ""] = [roomOf(path), roomOf(other)];
  if (room === otherRoom) return true;
  const isPackage = packages.includes(room);
  if (isPackage && isBesideCode(path)) return otherRoom !== "";
  if (isPackage) return other === "internal.ts" || isDoor(other, room);
  // Commands and benches are registered one by one; everything else of a package by its door.
  if (packages.includes(otherRoom) && !/^(test|bench|docs)$/.test(room)) {
    return !coreRooms.includes(room) && (isDoor(other, room) || other.includes("/commands/"));
  }
  return mayImport(room, otherRoom);
}

function isDoor(path: string, room: string): boolean {
  const otherRoom = roomOf(path) ?? "";
  return (
    path === `${otherRoom}/index.ts` && packages.includes(otherRoom) && mayImport(room, otherRoom)
  );
}

/** Most lines of each part of the repository, tests included. */
const budgets: Readonly<Record<string, number>> = {
  core: 135_250,
  ...Object.fromEntries(packages.map((name) => [name, 12_860])),
  cli: 7_850,
  bench: 14_020,
  test: 82_550,
  native: 14_380,
  "examples, docs": 2_540,
};

/** The part of the repository with a budget that a file belongs to; undefined: none. */
function partOf(path: string): string | undefined {
  const room = roomOf(path);
  if (room === undefined) return undefined;
  if (coreRooms.includes(room) || room === "index.ts") return "core";
  return room === "examples" || room === "docs" ? "examples, docs" : room;
}

/** The lines of a part of the repository, beside the lines that it may have. */
export interface PartSize {
  readonly part: string;
  readonly lines: number;
  readonly linesMax: number;
}

/** The size of every part with a budget. `files`: lines by path. */
export function sizesOf(files: ReadonlyMap<string, number>): PartSize[] {
  const lines = new Map<string, number>();
  for (const [path, count] of files) {
    const part = partOf(path);
    if (part !== undefined) lines.set(part, (lines.get(part) ?? 0) + count);
  }
  return Object.entries(budgets).map(([part, linesMax]) => {
    return { part, lines: lines.get(part) ?? 0, linesMax };
  });
}

/** The message for a part that exceeds its budget; undefined: it does not. */
export function excessOf({ part, lines, linesMax }: PartSize): string | undefined {
  if (lines <= linesMax) return undefined;
  return (
    `${part} has ${lines} lines, and its budget is ${linesMax}: make it smaller, or raise its ` +
    "budget in bench/rooms.ts and say why in the commit"
  );
}
