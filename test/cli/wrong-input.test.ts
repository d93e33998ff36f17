// The messages about a user's mistakes: each wrong input ends with exit code 2 and one sentence per
// mistake, printed once.

import test, { type ExecutionContext } from "ava";
import { startDirectory } from "../data/data-files.ts";
import { runCli } from "../helpers/processes/cli.ts";
import { thinned } from "../helpers/thinned.ts";
import { type WrongInput, writeCase } from "./wrong-input/case.ts";
import { dataCases } from "./wrong-input/data-cases.ts";
import { fileCases } from "./wrong-input/file-cases.ts";
import { flagCases } from "./wrong-input/flag-cases.ts";
import { jobCases } from "./wrong-input/job-cases.ts";

async function told(t: ExecutionContext, input: WrongInput) {
  const directory = startDirectory(t);
  writeCase(input, directory);
  for (const args of input.before ?? []) await runCli(args, directory);
  return runCli(input.args ?? ["train", "job.json", "--devices", "1"], directory);
}

const cases = [...jobCases, ...dataCases, ...fileCases, ...flagCases];

// Each case runs a whole command, so there is a case only for an error that no other test causes.
for (const input of thinned("wrong input of the command line", cases, 3)) {
  test.serial(`wrong input: ${input.title}`, async (t) => {
    const { code, stdout, stderr } = await told(t, input);
    const lines = stderr.trimEnd().split("\n");
    t.is(lines.length, input.says.length, stderr);
    for (const [i, line] of lines.entries()) {
      const wanted = input.says[i] ?? "";
      const sentence = line.replace(/^osiris: /, "").trim();
      if (typeof wanted === "string") t.is(sentence, wanted);
      else t.regex(sentence, wanted);
    }
    t.is(code, 2);
    t.notRegex(stdout, /failed|\w+:\d/, "stdout names no failure and no actor");
  });
}

test.serial("the usual job of the wrong-input cases is valid", async (t) => {
  const { code, stderr } = await told(t, { title: "nothing", says: [] });
  t.is(code, 0, stderr);
});
