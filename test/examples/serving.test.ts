// examples/serving as a user runs it: a model is trained, exported, verified, imported and served,
// and Python and curl get the predictions of `osiris predict`.

import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { startDirectory } from "../data/data-files.ts";
import { curl, testAll, testIf } from "../helpers/needs.ts";

const execute = promisify(execFile);

// In `npm test`, the commands of the example have tests of their own: test/cli, packages/serve.
testIf(curl, testAll)(
  "a model trained, exported, verified and served gives Python and curl the same numbers",
  async (t) => {
    const home = startDirectory(t);
    const env = {
      ...{ OSIRIS_CONSTANTS: "v100", OSIRIS_CALIBRATION: "brief", ...process.env },
      OSIRIS: `${process.execPath} ${resolve("dist/cli/main.js")}`,
    };
    const script = resolve("examples/serving/serve.sh");
    const { stdout } = await execute("sh", [script], { cwd: home, env });
    const [, auc] = /^AUC +(0\.\d+)/m.exec(stdout) ?? [];
    t.true(Number(auc) > 0.7, stdout);
    const digest = /^Digest +(sha256:[0-9a-f]{64})/m.exec(stdout)?.[1] ?? "";
    t.true(stdout.includes(`Leads to the digest  ${digest}`), stdout);
    t.regex(stdout, /^Proven +dense network, table user, table article$/m);
    t.regex(stdout, /The file, Python and curl agree on 5 predictions\.\n$/);
    const probabilities = readFileSync(join(home, "expected.txt"), "utf8").trim().split("\n");
    t.is(probabilities.length, 5);
    t.true(new Set(probabilities).size === 5 && probabilities.every((one) => Number(one) > 0));
    t.false(readdirSync(home).some((name) => /part|temp/.test(name)));
  },
);
