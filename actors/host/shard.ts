// Shard: answers for one logical embedding shard on the device where it is placed: its health, its
// rows, how much they are looked up, and its part in the last checkpoint.
//
//   restoring ──shard.restored──▶ serving
//
// Takes   shard.restored · shard.saved { cut, part }
// Fails   when told to; the device goes down with it, and with that the generation (law 3)
//
// Its figures are read off it when somebody inspects the cluster (actors/observe): nothing of them
// is on a step's path but one addition a shard, into shared memory.

import { assign, setup } from "xstate";
import { stateWidth } from "../../src/kernels/contract/kernels.ts";
import { packedBytes } from "../../src/kernels/contract/precision.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import { tableOf } from "../../src/training/topology/topology.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type Generation, progressOver } from "../threads/generation-memory.ts";

export interface ShardInput {
  readonly network: Network;
  readonly generation: Generation;
  readonly shard: HeldShard;
  /** The device that holds it. */
  readonly device: number;
}

/** A shard's part of a checkpoint, as it was written. */
export interface ShardPart {
  readonly cut: number;
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
}

type ShardEvent =
  | { readonly type: "shard.restored" }
  | { readonly type: "shard.saved"; readonly part: ShardPart };

export interface ShardContext extends ShardInput {
  readonly mailbox: Mailbox;
  /** Its part of the newest checkpoint that its device has written; undefined: none yet. */
  readonly part: ShardPart | undefined;
}

/** What a shard says of itself. */
export interface ShardReport {
  /** `shard:3` */
  readonly actor: string;
  readonly run: string;
  readonly generation: number;
  readonly device: number;
  readonly state: "restoring" | "serving";
  readonly table: string;
  /** Its tile of the table. */
  readonly firstRow: number;
  readonly rows: number;
  readonly firstColumn: number;
  readonly columns: number;
  /** `memory`: all rows are in device memory; `cached`: behind a cache. */
  readonly tier: string;
  /** Weights and optimizer state, as if every row were trained. */
  readonly bytes: number;
  /** Ids looked up in it since the generation began, and in the mean step. */
  readonly lookups: number;
  readonly lookupsPerStep: number;
  readonly part: ShardPart | null;
}

const machine = setup({
  types: {} as { context: ShardContext; input: ShardInput; events: ShardEvent },
  actions: {
    notePart: assign({
      part: ({ context, event }) => (event.type === "shard.saved" ? event.part : context.part),
    }),
  },
}).createMachine({
  id: "shard",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "shard",
      index: input.shard.shard,
    }),
    part: undefined,
  }),
  on: { "shard.saved": { actions: "notePart" } },
  initial: "restoring",
  states: {
    restoring: { on: { "shard.restored": "serving" } },
    serving: {},
  },
});

/** As drawn above. */
export const shardMachine = defineActor(machine);

/** The report of a shard in this state. */
export function reportShard(
  { generation, shard, device, part }: ShardContext,
  state: ShardReport["state"],
): ShardReport {
  const { spec, memory } = generation;
  const { model, optimizer } = spec.job;
  const { rows, columns, firstRow, firstColumn, tier, name: table } = shard;
  const { precision } = tableOf(model.tables, shard.table);
  const row = packedBytes(1, columns, precision) + 4 * stateWidth(optimizer.sparse.kind, columns);
  const lookups = new Float64Array(memory.heat)[shard.shard] ?? 0;
  const steps = Atomics.load(progressOver(memory, spec.devices).steps, device) - spec.fromStep;
  return {
    actor: `shard:${shard.shard}`,
    run: spec.run,
    generation: spec.generation,
    device,
    state,
    table,
    ...{ firstRow, rows, firstColumn, columns, tier },
    bytes: rows * row,
    lookups,
    lookupsPerStep: steps > 0 ? lookups / steps : 0,
    part: part ?? null,
  };
}
