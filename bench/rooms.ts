// The rooms of the house: which way imports point between them, and how large each may grow. The
// tidy test (test/tidy.test.ts) holds the order, `npm run size` the budgets.
//
// A budget is a question, not a wall: the lines of the day it was set and a tenth more. A room that
// outgrows its budget is read again. Make the room smaller, split it, or raise the budget and say
// why in the commit.

/** Folders, or files, each with the lines that it may have. A room in a room counts by itself. */
type Rooms = Readonly<Record<string, number>>;

/** From the bottom up. Imports point down; rooms of one layer do not import each other. */
export const layers: readonly Rooms[] = [
  { "src/errors": 1170 },
  { "src/ports": 2220 },
  {
    "src/data": 23_350,
    "src/kernels/contract": 1650,
    "src/planner": 3730,
    "src/wire/http": 270,
    "src/wire/messages": 1050,
    "storage/disk": 450,
  },
  {
    "src/embedding/tables": 770,
    "src/exchange": 2550,
    "src/kernels/reference": 2440,
    "src/model/graph": 860,
    "packages/sharding/search": 1210,
    "src/wire/transports": 1400,
  },
  {
    "actors/runtime": 1000,
    "src/embedding/dynamic-ids": 550,
    "src/embedding/rows": 2200,
    "src/kernels/checked": 1060,
    "src/kernels/native": 650,
    "src/model/blocks": 1_870,
    "src/model/options": 1300,
    "src/training/meters": 550,
    "src/wire/broker": 1250,
    "src/wire/jetstream": 640,
    "src/exchange/splits": 720,
    "src/wire/tenancy": 350,
    "packages/sharding/policies": 2260,
  },
  { "src/model/blocks/sequences": 400 },
  {
    "src/embedding/checkpoint": 760,
    "src/embedding/lookup": 1100,
    "src/kernels": 50,
    "src/model": 2_250,
    "storage/tiers/records": 1600,
    "packages/formats/safetensors": 150,
    "packages/formats/torch": 1450,
  },
  {
    "src/serving": 1_050,
    "src/training/topology": 1050,
    "storage/cluster": 900,
    "packages/sharding/files": 340,
    "packages/formats/dlrm-names": 330,
  },
  {
    "src/training/step": 3100,
    "storage/tiers": 1150,
  },
  {
    "src/training/checkpoint": 550,
    "src/training/loop": 1050,
    "src/training/planning": 1400,
  },
  {
    "src/job": 2_320,
    "storage/checkpoints/store": 2_020,
  },
  {
    "storage/checkpoints": 1_950,
    "storage/checkpoints/replicas": 400,
  },
  {
    "actors/threads": 4350,
    "packages/formats/exports": 3_260,
    "storage/model": 2_900,
    "packages/formats/tables": 1550,
    "packages/ingest/warehouse": 2_200,
  },
  {
    "actors/host": 3050,
    "packages/ingest/first-job": 1_420,
    "packages/formats/imports": 1_700,
    "packages/ingest/streams": 2200,
    "packages/serve/model": 2_560,
    "packages/ingest/sessions": 1_700,
  },
  {
    "actors/calibration": 700,
    "actors/doctor": 700,
    "actors/threads/preprocessing": 700,
    "actors/run/state": 2950,
  },
  { "actors/run/control": 3200 },
  { "actors/jobs": 2150 },
  { "actors/jobs/mirror": 600 },
  { "actors/observe": 1220 },
  { "actors/client": 1100, "packages/serve/server": 3_850 },
  { "packages/dashboard/server": 1280 },
  { "actors/cluster": 1450 },
  {
    "packages/sharding/training": 1190,
    "actors/verify": 450,
    "chaos/faults": 1550,
  },
  {
    "chaos/simulation": 2400,
    "chaos/trials": 1700,
  },
  { chaos: 300 },
  { "index.ts": 200, "internal.ts": 340 },
  { "cli/support": 1670 },
  { "cli/views": 1780 },
  {
    "cli/commands/train": 1330,
    "cli/commands/runs": 740,
    "cli/commands/cluster": 800,
    "cli/commands/checkpoints": 1_310,
    "cli/commands/chaos": 450,
    "cli/commands/serving": 300,
    "cli/commands/setup": 330,
    "packages/ingest/commands": 520,
  },
  {
    cli: 150,
    examples: 2_200,
    bench: 13_230,
    docs: 340,
    web: 3180,
  },
  { test: 86_300 },
];

/** The addon, in C++: src/kernels/native loads what these rooms compile to. */
export const nativeRooms: Rooms = {
  native: 900,
  "native/bindings": 1_650,
  "native/blocks": 960,
  "native/dense": 1_100,
  "native/embedding": 1400,
  "native/exchange": 300,
  "native/ingest": 1200,
  "native/simd": 1170,
  "native/test": 1_650,
  "native/tiers": 650,
};

const budgets: Rooms = Object.assign({}, ...layers, nativeRooms);
// The longest names first, so that a room within a room is found before the outer one.
const names = Object.keys(budgets).sort((one, other) => other.length - one.length);

/** The room that a file lies in; undefined: none. */
export function roomOf(path: string): string | undefined {
  return names.find((room) => path === room || path.startsWith(`${room}/`));
}

/** The lines of a room, beside the lines that it may have. */
export interface RoomSize {
  readonly room: string;
  readonly lines: number;
  readonly linesMax: number;
}

/** The size of every room, from the bottom up. `files`: lines by path. */
export function sizesOf(files: ReadonlyMap<string, number>): RoomSize[] {
  const lines = new Map<string, number>();
  for (const [path, count] of files) {
    const room = roomOf(path);
    if (room !== undefined) lines.set(room, (lines.get(room) ?? 0) + count);
  }
  return Object.entries(budgets).map(([room, linesMax]) => {
    return { room, lines: lines.get(room) ?? 0, linesMax };
  });
}

/** What is wrong with a room that has outgrown its budget; undefined: nothing. */
export function excessOf({ room, lines, linesMax }: RoomSize): string | undefined {
  if (lines <= linesMax) return undefined;
  return (
    `${room} has ${lines} lines, and its budget is ${linesMax}: make the room smaller, split it, ` +
    "or raise its budget in bench/rooms.ts and say why in the commit"
  );
}
