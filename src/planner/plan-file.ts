// A plan as a file: JSON that people can read and compare line by line, one line per shard, in the
// plan's order. Its hash is SHA-256 over the text without the 64 digits, so that equal plans have
// equal files and equal hashes, and a change of any byte is detected.

import { createHash } from "node:crypto";
import { z } from "zod";
import { InputUnusableError, InvalidOptionError } from "../errors/errors.ts";
import { checkOptions } from "../ports/check-options.ts";
import { checkCover } from "./assess.ts";
import type { PackedPlan } from "./packed-plan.ts";
import type { ShardPin } from "./pins.ts";
import { type PlacedShard, type Plan, type PlanFile, planOfFile, schemes } from "./shards.ts";

export const planFileSchema = z.strictObject({
  version: z.literal(1).describe("Version of the format of the file."),
  hosts: z.int().min(1).max(65_536).describe("Number of hosts that the plan is for."),
  devicesPerHost: z.int().min(1).max(65_536).describe("Devices of each host."),
  shards: z
    .array(
      z.strictObject({
        table: z.string().min(1).describe("Name of the table."),
        scheme: z.enum(schemes).describe("Sharding scheme of the table."),
        tier: z
          .enum(["memory", "cached"])
          .describe(
            "Where the rows are stored: in device memory, or in the backing store behind a cache.",
          ),
        blocks: z
          .tuple([z.int().min(0), z.int().min(1)])
          .describe("First row block of the shard, and its number of row blocks."),
        quanta: z
          .tuple([z.int().min(0), z.int().min(1)])
          .describe(
            "First group of 32 columns (column quantum) of the shard, and its number of groups.",
          ),
        device: z
          .union([z.int().min(0), z.literal("all")])
          .describe("Device that holds the shard; `all`: a copy on every device."),
        cache: z
          .tuple([z.int().min(0), z.int().min(0)])
          .optional()
          .describe(
            "For a cached table: bytes of the shard's cache in device memory, and in host memory.",
          ),
      }),
    )
    .describe("The shards of all tables, and the device of each."),
  sha256: z.string().describe("SHA-256 of the file's text without these 64 digits."),
}) satisfies z.ZodType<PlanFile>;

const count = z.int().min(0);
const counts = [count, count, count, count, count, count, count] as const;

export const packedPlanSchema = z.object({
  hosts: z.int().min(1),
  perHost: z.int().min(1),
  shards: z.array(z.tuple([...counts, z.int().min(-1)]).rest(count)).readonly(),
}) satisfies z.ZodType<PackedPlan>;

/** Schema of a pin in journals and messages. */
export const shardPinSchema = z.object({
  table: z.string(),
  firstBlock: count,
  blocks: z.int().min(1),
  firstQuantum: count,
  quanta: z.int().min(1),
  device: count,
  isFrozen: z.boolean(),
}) satisfies z.ZodType<ShardPin>;

const tail = /"sha256": "([0-9a-f]{64})"\n\}\n$/;

/** Returns the text of a plan file, and its hash. */
export function writePlan({ devices, shards }: Plan): { text: string; sha256: string } {
  const lines = shards.map((shard) => `    ${JSON.stringify(lineOf(shard))}`);
  const open = (sha256: string) => `{
  "version": 1,
  "hosts": ${devices.hosts},
  "devicesPerHost": ${devices.perHost},
  "shards": [
${lines.join(",\n")}
  ],
  "sha256": "${sha256}"
}
`;
  const sha256 = hashOf(open(""));
  return { text: open(sha256), sha256 };
}

/**
 * Reads the text of a plan file, for these tables.
 *
 * @throws InputUnusableError naming `path`: no plan, a changed plan, or a plan of other tables
 */
export function readPlan(
  text: string,
  path: string,
  tables: Parameters<typeof checkCover>[0],
): Plan {
  const refuse = (why: string, options?: ErrorOptions) => {
    return new InputUnusableError(path, `Cannot use the plan ${path}: ${why}`, options);
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw refuse("it is not valid JSON", { cause });
  }
  let found: PlanFile;
  try {
    found = checkOptions(planFileSchema, value, "plan");
  } catch (cause) {
    if (!(cause instanceof InvalidOptionError)) throw cause;
    throw refuse(cause.message, { cause });
  }
  if (tail.exec(text)?.[1] !== hashOf(text.replace(tail, '"sha256": ""\n}\n'))) {
    throw refuse("its hash is not that of its text; let `osiris plan --out` write it again");
  }
  const plan = planOfFile(found);
  const wrong = checkCover(tables, plan);
  if (wrong !== undefined) throw refuse(wrong);
  return plan;
}

function lineOf({ table, scheme, tier, device, cache, ...tile }: PlacedShard) {
  const blocks = [tile.firstBlock, tile.blocks];
  const quanta = [tile.firstQuantum, tile.quanta];
  const bytes = cache && { cache: [cache.hbmBytes, cache.ddrBytes] };
  return { table, scheme, tier, blocks, quanta, device, ...bytes };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
