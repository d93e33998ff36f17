// osiris shard show|move|freeze|thaw RUN SHARD: shows the device of a shard, and pins the shard to
// a device, against the plan of the run. osiris tier show|flush RUN DEVICE: shows the tiers of a
// device, or writes their rows to disk.

import type { Command } from "commander";
import type { NamedShard } from "../../../internal.ts";
import { plural } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";
import { shardLines, tierLines } from "../../views/cluster-view.ts";

const shard = { role: "shard", what: "its number in `osiris status --shards`" } as const;
const device = { role: "device", what: "device to move the shard to" } as const;

export function addShard(program: Command): void {
  const command = program
    .command("shard")
    .description("move a shard of a run to another device, or pin it where it is");
  addRunCommand(command, {
    name: "shard show",
    description: "show the state of a shard, and where it is pinned",
    example: " 3",
    actors: [shard],
    request: (run, _, at = 0) => run.inspectShard(at),
    sentence: (_, report) => shardLines([report]).join("\n"),
  });
  addRunCommand(command, {
    name: "shard move",
    description: "move a shard to a device after the current step, and pin it; no bit changes",
    example: " 3 1",
    actors: [shard, device],
    request: async (run, _, at = 0, to = 0) => ({ shard: await run.moveShard(at, { device: to }) }),
    sentence: (run, { shard: one }) =>
      one.device === one.pin?.device
        ? `${nameOf(one)} of run ${run} is on device:${one.device}, and stays there.`
        : `${nameOf(one)} of run ${run} moves to device:${one.pin?.device}.`,
  });
  addRunCommand(command, {
    name: "shard freeze",
    description: "pin a shard to its device until `shard thaw`; training of its rows continues",
    example: " 3",
    actors: [shard],
    request: async (run, _, at = 0) => ({ shard: await run.freezeShard(at) }),
    sentence: (run, { shard: one }) =>
      `${nameOf(one)} of run ${run} stays where it is until it is thawed.`,
  });
  addRunCommand(command, {
    name: "shard thaw",
    description: "remove a shard's pin: the run's next plan may place it on any device",
    example: " 3",
    actors: [shard],
    request: async (run, _, at = 0) => ({ shard: await run.thawShard(at) }),
    sentence: (run, { shard: one }) => `${nameOf(one)} of run ${run} may lie on any device again.`,
  });
}

function nameOf({ shard: number, table, firstRow, rows }: NamedShard): string {
  return `shard:${number} (${table}, rows ${firstRow} to ${firstRow + Math.max(0, rows - 1)})`;
}

const tieredDevice = { role: "device", what: "number of a device with cached tables" } as const;

export function addTier(program: Command): void {
  const command = program
    .command("tier")
    .description("show the tiers of a device, or write their rows to its disk");
  addRunCommand(command, {
    name: "tier show",
    description: "show how many rows of a device's cached tables each tier has, and its hit rate",
    example: " 1",
    actors: [tieredDevice],
    request: (run, _, at = 0) => run.inspectTier(at),
    sentence: (_, report) => tierLines([report]).join("\n"),
  });
  addRunCommand(command, {
    name: "tier flush",
    description: "write a device's changed rows from host memory to its disk now",
    example: " 1",
    actors: [tieredDevice],
    request: async (run, _, at = 0) => ({ device: at, rows: await run.flushTier(at) }),
    sentence: (run, { device: at, rows }) =>
      `Run ${run} has written ${plural(rows, "row")} of device:${at} to its disk.`,
  });
}
