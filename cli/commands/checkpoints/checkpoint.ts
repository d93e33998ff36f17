// osiris checkpoint list|verify|diff|restore|now: lists, verifies and compares the checkpoints of a
// directory, goes back to an earlier one, and makes a checkpoint of a running run.

import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import {
  type CheckpointDifference,
  type CheckpointList,
  type CheckpointRecord,
  diffCheckpoints,
  InvalidOptionError,
  listCheckpoints,
  planRestore,
  type RestoreReport,
  restoreCheckpoint,
  type VerifyReport,
  verifyCheckpoints,
} from "../../../internal.ts";
import { type CommonOptions, withCommon, withModelRoots } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { aligned, bytes, count, duration, plural } from "../../support/format.ts";
import { addRunCommand } from "../../support/run-command.ts";
import { runTask } from "../../views/task-view.ts";

interface VerifyOptions extends CommonOptions {
  readonly manifest?: string;
}

interface DiffOptions extends CommonOptions {
  readonly other?: string;
}

interface RestoreOptions extends CommonOptions {
  readonly yes?: boolean;
}

/**
 * Digits of a hash in the output for people, which is also a valid argument of commands: enough to
 * distinguish checkpoints.
 */
const hashDigits = 12;

export function addCheckpoint(program: Command): void {
  const checkpoint = program
    .command("checkpoint")
    .description("list, verify, compare and go back to the checkpoints of a directory");
  addList(checkpoint);
  addVerify(checkpoint);
  addDiff(checkpoint);
  addRestore(checkpoint);
  addNow(checkpoint);
}

function addList(checkpoint: Command): void {
  const command = checkpoint
    .command("list")
    .argument("<directory>", "checkpoint directory")
    .description("list the checkpoints of a directory, newest first, and its damaged files");
  withCommon(command, ["checkpoint list checkpoints"]).action(
    (directory: string, { json }: CommonOptions) => {
      const list = listCheckpoints(directory);
      if (json) console.log(JSON.stringify({ report: "checkpoint.list", ...list }));
      else for (const line of listLines(directory, list)) console.log(line);
    },
  );
}

function listLines(directory: string, list: CheckpointList): string[] {
  const { checkpoints, damaged, offChain } = list;
  const titles = [
    "manifest",
    "step",
    "generation",
    "parent",
    "age",
    "bytes",
    "base bytes",
    "",
    "digest",
  ];
  const cells = checkpoints.map((one) => [
    one.manifest.slice(0, hashDigits),
    count(one.cut),
    String(one.generation),
    one.parent?.slice(0, hashDigits) ?? "-",
    ageOf(one),
    bytes(one.bytes),
    one.baseBytes === 0 ? "-" : bytes(one.baseBytes),
    [one.best ? "best" : "", calibrationMark(one)].join(" ").trim(),
    one.digest,
  ]);
  return [
    ...(cells.length === 0 ? [`No checkpoint in ${directory}.`] : aligned([titles, ...cells])),
    ...damaged.map(({ path, reason }) => `! damaged: ${path}: ${reason}`),
    ...(offChain.length > 0
      ? [`Off the chain, to be removed by the run's next checkpoint: ${offChain.join(", ")}`]
      : []),
  ];
}

function calibrationMark({ calibration }: CheckpointRecord): string {
  if (calibration === undefined) return "";
  return calibration === "stored" ? "calibrated" : "calibration damaged";
}

function ageOf({ committedAtMs }: CheckpointRecord): string {
  return committedAtMs === undefined ? "-" : duration((Date.now() - committedAtMs) / 1000);
}

function addVerify(checkpoint: Command): void {
  const command = checkpoint
    .command("verify")
    .argument("<directory>", "checkpoint directory")
    .description(
      "read all bytes of checkpoints, check hashes and model digests; exit code 1: damage",
    )
    .option("--manifest <HASH>", "verify only this checkpoint: its manifest's hash, or a prefix");
  withCommon(command, [
    "checkpoint verify checkpoints",
    "checkpoint verify checkpoints --json",
  ]).action(async (directory: string, { json, manifest }: VerifyOptions) => {
    process.exitCode = await runTask(
      "verify",
      (progress) => verifyCheckpoints(directory, { manifest, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "checkpoint.verify", ...report }));
        else for (const line of verifyLines(directory, report)) console.log(line);
        return report.isIntact ? exitCodes.done : exitCodes.failed;
      },
    );
  });
}

function verifyLines(directory: string, { checkpoints, damaged }: VerifyReport): string[] {
  const lines = checkpoints.map(({ cut, manifest, bytes: size, digest, storedDigest, reason }) => {
    const which = `${manifest.slice(0, hashDigits)} (step ${count(cut)}, ${bytes(size)})`;
    const stored = storedDigest === undefined ? "" : `; stored in fewer bits: ${storedDigest}`;
    return reason === undefined ? `${which}: intact, ${digest}${stored}` : `${which}: ${reason}`;
  });
  const bad = damaged.map(({ path, reason }) => `! damaged: ${path}: ${reason}`);
  return lines.length + bad.length === 0 ? [`No checkpoint in ${directory}.`] : [...lines, ...bad];
}

function addDiff(checkpoint: Command): void {
  const command = checkpoint
    .command("diff")
    .argument("<directory>", "checkpoint directory")
    .argument("<from>", "first checkpoint: its manifest's hash, or a prefix")
    .argument("<to>", "second checkpoint: its manifest's hash, or a prefix")
    .description("compare two checkpoints: rows by table, dense weights, digests")
    .option("--other <DIRECTORY>", "directory of the second checkpoint (default: the same)");
  withCommon(withModelRoots(command), [
    "checkpoint diff checkpoints 3fa90c 71be22",
    "checkpoint diff checkpoints 3fa90c 88e1a0 --other imported",
  ]).action(async (directory: string, from: string, to: string, options: DiffOptions) => {
    const { json, other } = options;
    process.exitCode = await runTask(
      "diff",
      (progress) => diffCheckpoints(directory, from, to, { other, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "checkpoint.diff", ...report }));
        else for (const line of diffLines(report)) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

function diffLines({ from, to, tables, dense, isEqual }: CheckpointDifference): string[] {
  const titles = ["table", "common rows", "changed", "initialised", "removed", "largest change"];
  const cells = tables.map(({ name, common, changed, born, gone, largest }) => [
    name,
    count(common),
    count(changed),
    count(born),
    count(gone),
    largest === undefined ? "-" : `${largest.change.toPrecision(4)} (row ${largest.row})`,
  ]);
  const { weights, changed, largest, state } = dense;
  const by = changed === 0 ? "" : `, by ${largest.toPrecision(4)} at most`;
  return [
    `From step ${count(from.cut)}, ${from.digest}`,
    `To step ${count(to.cut)}, ${to.digest}`,
    "",
    ...aligned([titles, ...cells]),
    "",
    `Dense weights        ${count(changed)} of ${count(weights)} changed${by}`,
    `Dense state          ${plural(state, "number")} changed`,
    isEqual ? "The models are the same, bit by bit." : "The models differ.",
  ];
}

function addRestore(checkpoint: Command): void {
  const command = checkpoint
    .command("restore")
    .argument("<directory>", "checkpoint directory")
    .argument("<manifest>", "checkpoint of the chain: its manifest's hash, or a prefix")
    .description(
      "go back to an earlier checkpoint; the run's next checkpoint removes the later ones",
    )
    .option("--yes", "do not ask for confirmation");
  withCommon(command, ["checkpoint restore checkpoints 3fa90c --yes"]).action(
    async (directory: string, manifest: string, options: RestoreOptions) => {
      const { json, yes } = options;
      const planned = planRestore(directory, manifest);
      if (planned.givenUp.length > 0 && yes !== true && !(await isAgreed(planned))) {
        console.log("Nothing was changed.");
        process.exitCode = exitCodes.cancelled;
        return;
      }
      process.exitCode = await runTask(
        "restore",
        (progress) => restoreCheckpoint(directory, manifest, progress),
        (report) => {
          if (json) console.log(JSON.stringify({ report: "checkpoint.restore", ...report }));
          else for (const line of restoreLines(directory, report)) console.log(line);
          return exitCodes.done;
        },
      );
    },
  );
}

/** Asks for confirmation. @throws InvalidOptionError where there is no terminal to ask on */
async function isAgreed({ checkpoint, givenUp }: RestoreReport): Promise<boolean> {
  const lost = givenUp.map(({ manifest, cut }) => `${nameOf(manifest)} (step ${count(cut)})`);
  const what = `Going back to step ${count(checkpoint.cut)} gives up ${lost.join(", ")}`;
  if (!process.stdin.isTTY) {
    throw new InvalidOptionError("--yes", `${what}: expected \`--yes\``);
  }
  console.error(`${what}.\nA run that still writes there is ended.`);
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await lines.question("Go back? [y/N] ")).trim());
  } finally {
    lines.close();
  }
}

function restoreLines(directory: string, { checkpoint, givenUp, generation }: RestoreReport) {
  const { manifest, cut, digest } = checkpoint;
  if (generation === undefined) {
    return [`${nameOf(manifest)} (step ${count(cut)}) is the newest already: nothing was changed.`];
  }
  return [
    `${directory}: the next run continues from ${nameOf(manifest)} (step ${count(cut)}).`,
    `Given up             ${plural(givenUp.length, "later checkpoint")}`,
    `Digest               ${digest}`,
  ];
}

function nameOf(manifest: string): string {
  return manifest.slice(0, hashDigits);
}

export function addNow(checkpoint: Command): void {
  addRunCommand(checkpoint, {
    name: "checkpoint now",
    description: "make a checkpoint of a running run after its current step, and wait for it",
    request: (run) => run.checkpoint(),
    sentence: (run, { step, digest }) =>
      `Run ${run} is saved at step ${count(step)}, model ${digest}`,
  });
}
