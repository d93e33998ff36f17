// `osiris serve` as a command: its output, its refusals, and its end.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { recordsOf, startModel } from "../../../../test/helpers/models/served.ts";
import { runCli } from "../../../../test/helpers/processes/cli.ts";
import { startCli } from "../../../../test/helpers/processes/start-cli.ts";

test("serve prints the command that queries the model, and serves it until SIGTERM", async (t) => {
  const { directory, home } = await startModel(t);
  writeFileSync(join(home, "tokens"), "a-token-of-this-test\n\nits-successor-of-16\n");
  const memory = ["--memory", "1MiB", "--tier-directory", "tiers"];
  const options = ["--port", "0", "--token-file", "tokens", ...memory];
  const little = await runCli(["serve", directory, "--port", "0", "--memory", "1KiB"], home);
  t.regex(little.stderr, /Expected `memoryBytes` to be \d+ or more/);
  const server = startCli(["serve", directory, ...options], home);
  t.teardown(() => server.kill("SIGKILL"));
  const line = await server.line((one) => one.includes("curl"));
  const [, url = "", body = ""] = /(http:\S+) -d '(.*)'$/.exec(line) ?? [];
  t.regex(url, /\/v1\/models\/checkpoints:predict$/);
  const ask = (token: string, text: string) =>
    fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: text,
    });
  t.is((await ask("its-successor-of-16", body)).status, 200);
  t.is((await ask("another", body)).status, 401);
  const instances = recordsOf(2);
  const answer = await ask("a-token-of-this-test", JSON.stringify({ instances }));
  t.is(((await answer.json()) as { predictions: unknown[] }).predictions.length, 2);
  server.kill("SIGTERM");
  const { code, stdout, stderr } = await server.ended;
  t.is(code, 0, stderr);
  t.regex(stdout, /^checkpoints {10}sha256:\w{64} \(step 1\)\nServing http:[\s\S]*then stopping/);
  t.false(`${stdout}${stderr}`.includes("a-token"));
});

test.serial("serve refuses invalid models and options in one sentence", async (t) => {
  const directory = startDirectory(t);
  mkdirSync(join(directory, "empty"));
  writeFileSync(join(directory, "bad.yaml"), "models: {m: {path: empty, wach: false}}\n");
  writeFileSync(join(directory, "none"), "\n");
  const wrong: [string[], RegExp][] = [
    [[], /Expected a model to serve: a checkpoint directory, or NAME=DIRECTORY/],
    [["empty"], /empty/],
    [["a=empty", "a=other"], /two of `a`: name one by NAME=DIRECTORY/],
    [["bad.yaml"], /Expected no option `models\.m\.wach`/],
    [
      ["bad.yaml", "--memory", "1GiB"],
      /Expected no `--memory` beside bad\.yaml: set `memoryBytes`/,
    ],
    [["bad.yaml", "--no-watch"], /Expected no `--no-watch` beside bad\.yaml: set `watch: false`/],
    [["no.yaml"], /Cannot read the options no\.yaml: ENOENT/],
    [["empty", "--host", "0.0.0.0"], /an address of this machine alone/],
    [["empty", "--token-file", "none"], /Expected none to have one token a line/],
    [["empty", "--memory", "none"], /Expected bytes > 0/],
    [["empty", "--tls-cert", "c"], /Expected `--tls-cert` and `--tls-key` together/],
  ];
  for (const [args, message] of wrong) {
    const { code, stderr } = await runCli(["serve", ...args, "--port", "0"], directory);
    t.is(code, 2, `${args.join(" ")}: ${stderr}`);
    t.regex(stderr, message);
  }
  const schema = await runCli(["serve", "--schema"], directory);
  t.truthy(JSON.parse(schema.stdout).properties.models);
});
