// osiris cancel, pause, resume and scale RUN: commands that change the state of a run.

import type { Command } from "commander";
import { integerFrom } from "../../support/arguments.ts";
import { plural } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";

export function addCancel(program: Command): void {
  addRunCommand(program, {
    name: "cancel",
    description:
      "stop a run after its current step, with a checkpoint; submitting the job again continues it",
    request: async (run) => ({ status: await run.cancel() }),
    sentence: (run, { status }) => {
      if (status === "running") return `Run ${run} stops after its current step.`;
      const isOver = status === "finished" || status === "failed";
      return isOver ? `Run ${run} is over already: ${status}.` : `Run ${run} is cancelled.`;
    },
  });
}

export function addPause(program: Command): void {
  addRunCommand(program, {
    name: "pause",
    description: "pause a run after its current step, and release its devices until it is resumed",
    request: async (run) => ({ status: await run.pause() }),
    sentence: (run, { status }, command) =>
      `Run ${run} ${status === "running" ? "pauses after its current step" : "waits"}; ` +
      `\`osiris resume ${command}\` continues it.`,
  });
}

export function addResume(program: Command): void {
  addRunCommand(program, {
    name: "resume",
    description: "continue a paused run once it gets devices; a pause changes no bit of its model",
    request: async (run) => ({ status: await run.resume() }),
    sentence: (run) => `Run ${run} continues once it gets devices.`,
  });
}

export function addScale(program: Command): void {
  addRunCommand(program, {
    name: "scale",
    description:
      "change a run's number of devices after its current step; no bit of its model changes",
    example: " --devices 4",
    async request(run, { devices }: { readonly devices: number }) {
      return { wanted: devices, ...(await run.scale({ devices })) };
    },
    sentence: (run, { devices, wanted }) => {
      const why = devices < wanted ? `: its batches have ${plural(devices, "slice")}` : "";
      return `Run ${run} continues with ${plural(devices, "device")}${why}.`;
    },
  }).requiredOption("--devices <N>", "new number of devices", integerFrom(1));
}
