// Shard: the actor of one logical embedding shard on the device that holds it: its health, its
// rows, its lookups, and its part of the last checkpoint.
//
//   restoring ──shard.restored──▶ serving
//
// The device starts it with the first message to the shard: most of the 10,000 shards that a device
// may hold are never asked for.
//
// Takes   shard.inspect { command }; from its device: shard.restored · shard.saved { cut, part }
// Emits   shard.inspected
// Fails   on chaos.throw only; the device fails with it, and so the generation (law 3)
//
// Its figures are read when the cluster is inspected (actors/observe); on the path of a step they
// cost one addition per shard, in shared memory. Its placement is decided above it: requests to
// move or to pin it go to the run (actors/jobs/pin-shards.ts).

import { assign, setup } from "xstate";
import { rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { packedBytes } from "../../src/kernels/contract/precision.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import { tableOf } from "../../src/training/topology/topology.ts";
import { defineActor } from "../runtime/define-actor.ts";
import { type Mailbox, type MessageEvent, type Network, openMailbox } from "../runtime/mailbox.ts";
import { type Generation, progressOver } from "../threads/generation-memory.ts";
import { cachedRowsOf } from "./tier-report.ts";

export interface ShardInput {
  readonly network: Network;
  readonly generation: Generation;
  readonly shard: HeldShard;
  /** The device that holds the shard. */
  readonly device: number;
  /** Whether the device has restored its rows. */
  readonly isRestored: boolean;
  /** Its part of the newest checkpoint written by its device; undefined: none yet. */
  readonly part: ShardPart | undefined;
}

/** A shard's written part of a checkpoint. */
export interface ShardPart {
  readonly cut: number;
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
}

type ShardEvent =
  | MessageEvent<"shard.inspect">
  | { readonly type: "shard.restored" }
  | { readonly type: "shard.saved"; readonly part: ShardPart };

export interface ShardContext extends ShardInput {
  readonly mailbox: Mailbox;
}

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
  /** `memory`: all rows are in device memory; `cached`: device memory is a cache of the rows. */
  readonly tier: string;
  /** Rows of a cached shard that are in device memory; null: all are. */
  readonly cachedRows: number | null;
  /** Bytes of weights and optimizer state, as if every row were initialised. */
  readonly bytes: number;
  /** Ids looked up since the generation began, and per step on average. */
  readonly lookups: number;
  readonly lookupsPerStep: number;
  /** Completed steps of its device; a shard stalls together with its device. */
  readonly step: number;
  readonly part: ShardPart | null;
  /** The pin of its owner; null: none. The shard leaves it out, and the run adds it. */
  readonly pin?: { readonly device: number; readonly isFrozen: boolean } | null;
}

const machine = setup({
  types: {} as { context: ShardContext; input: ShardInput; events: ShardEvent },
  actions: {
    notePart: assign({
      part: ({ context, event }) => (event.type === "shard.saved" ? event.part : context.part),
    }),
    sendReport: ({ context, event, self }) => {
      if (event.type !== "shard.inspect") return;
      const { value } = self.getSnapshot();
      const report = reportShard(context, value === "serving" ? value : "restoring");
      const body = { command: event.body.command, shard: context.shard.shard, report };
      context.mailbox.send({ role: "inspector", index: 0 }, "shard.inspected", body);
    },
  },
}).createMachine({
  id: "shard",
  context: ({ input }) => ({
    ...input,
    mailbox: openMailbox(input.network, input.generation.spec, {
      role: "shard",
      index: input.shard.shard,
    }),
  }),
  on: {
    "shard.saved": { actions: "notePart" },
    "shard.inspect": { actions: "sendReport" },
  },
  initial: "restoring",
  states: {
    restoring: {
      always: { guard: ({ context }) => context.isRestored, target: "serving" },
      on: { "shard.restored": "serving" },
    },
    serving: {},
  },
});

/** The state machine drawn in the header, as an actor. */
export const shardMachine = defineActor(machine);

/** Makes the report of a shard in this state. `cachedRows`: of the shards of its device. */
export function reportShard(
  { generation, shard, device, part }: Pick<ShardInput, "generation" | "shard" | "device" | "part">,
  state: ShardReport["state"],
  cachedRows = cachedRowsOf(generation, device),
): ShardReport {
  const { spec, memory } = generation;
  const { model, optimizer } = spec.job;
  const { rows, columns, firstRow, firstColumn, tier, name: table } = shard;
  const { precision } = tableOf(model.tables, shard.table);
  const row = packedBytes(1, columns, precision) + 4 * rowStateWidth(optimizer.sparse, columns);
  const lookups = new Float64Array(memory.heat)[shard.shard] ?? 0;
  const step = Atomics.load(progressOver(memory, spec.devices).steps, device);
  const steps = step - spec.fromStep;
  return {
    actor: `shard:${shard.shard}`,
    run: spec.run,
    generation: spec.generation,
    device,
    state,
    table,
    ...{ firstRow, rows, firstColumn, columns, tier },
    cachedRows: tier === "cached" ? cachedRows(shard.shard) : null,
    bytes: rows * row,
    lookups,
    lookupsPerStep: steps > 0 ? lookups / steps : 0,
    step,
    part: part ?? null,
  };
}
