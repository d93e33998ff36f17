// A checkpoint's job can name the module of its model: the program that reads the model decides
// whether that module may run.

import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { Command } from "commander";
import { verifyRun } from "../../../actors/verify/verify-run.ts";
import { withModelRoots } from "../../../cli/support/arguments.ts";
import { exportModel } from "../../../packages/formats/exports/export-model.ts";
import { exportDelta } from "../../../packages/serve/model/export-delta.ts";
import { ServedModel } from "../../../packages/serve/model/served-model.ts";
import { PathForbiddenError } from "../../../src/errors/errors.ts";
import { allowedModule } from "../../../src/model/custom/allowed-modules.ts";
import { diffCheckpoints } from "../../../storage/checkpoints/diff-checkpoints.ts";
import { decodeJob, encodeRecord } from "../../../storage/checkpoints/store/manifest.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { trainedTables } from "../../helpers/stores/tables.ts";

test("a module that a checkpoint names does not run until the caller allows it", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const mark = join(home, "ran");
  const module = join(home, "evil.mjs");
  const code = `process.getBuiltinModule("node:fs").writeFileSync(${JSON.stringify(mark)}, "")`;
  writeFileSync(module, `${code};\nexport default 1;\n`);
  const path = join(directory, "job.json");
  const { sha256: _, ...record } = decodeJob(readFileSync(path), path);
  const job = JSON.parse(record.jobText);
  const { dense, tables } = job.model;
  const jobText = JSON.stringify({
    ...job,
    model: { kind: "custom", path: module, dense, tables },
  });
  writeFileSync(path, encodeRecord({ ...record, jobText }).bytes);
  const ways: Readonly<Record<string, () => Promise<unknown>>> = {
    load: () => loadModel(directory),
    serve: () => ServedModel.open(directory),
    export: () => exportModel(directory, join(home, "model.osiris")),
    delta: () => exportDelta(directory, join(home, "d"), { since: "1" }),
    diff: () => diffCheckpoints(directory, manifest.sha256, manifest.sha256),
    verify: () => verifyRun(directory),
  };
  const message = `Expected the model of ${directory} to be a module that this process allows, got ${module}: it allows none`;
  for (const [name, way] of Object.entries(ways)) {
    const error = await t.throwsAsync(way(), { instanceOf: PathForbiddenError }, name);
    t.true(error.message.startsWith(message), `${name}: ${error.message}`);
    t.false(existsSync(mark), name);
  }
  // Commands that read no model need no module.
  t.is((await verifyCheckpoints(directory)).checkpoints.length, 2);
  t.false(existsSync(mark));
  // Allows the module by its directory, through a symbolic link, as the command line names it.
  symlinkSync(home, `${home}-link`);
  t.teardown(() => import("node:fs").then(({ rmSync }) => rmSync(`${home}-link`)));
  const command = withModelRoots(new Command("eval").argument("<directory>")).action(() => {});
  await command.parseAsync(["--model-root", `${home}-link`, directory], { from: "user" });
  t.is(allowedModule(join(`${home}-link`, "evil.mjs")), module);
  await t.throwsAsync(loadModel(directory), { message: /to be a module whose default export/ });
  t.true(existsSync(mark), "it runs, with all rights of the process");
});
