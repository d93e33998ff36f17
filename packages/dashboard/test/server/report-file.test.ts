// Reports of runs: one self-contained HTML file, shown in a browser without network access.

import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import test, { type ExecutionContext } from "ava";
import type { Browser } from "playwright-core";
import { connect, reportOfDirectory } from "../../../../index.ts";
import { openKernels } from "../../../../src/kernels/index.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import {
  brokenBoxes,
  openTab,
  realBrowser,
  startBrowser,
} from "../../../../test/helpers/browsers.ts";
import { smallSteps, startTestCluster } from "../../../../test/helpers/clusters/clusters.ts";
import { leavesOut } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson, startCli } from "../../../../test/helpers/processes/start-cli.ts";
import { someOrAll } from "../../../../test/helpers/thinned.ts";

const belowChart =
  'innerHeight - document.querySelector("#chart-loss .u-legend").getBoundingClientRect().bottom';
const hostile = "</script><img src=x onerror=alert(1)>";

test.serial(
  "a finished run and its remaining checkpoint directory are each shown by one report file",
  async (t) => {
    const directory = startDirectory(t);
    await using place = await startTestCluster(1);
    const { url, token = "" } = place.cluster;
    const tables = [hostile, "b"].map((name) => ({ name, rows: 200, dim: 8 }));
    const job = place.job({
      name: "reported",
      model: { kind: "dlrm", dense: 4, tables, bottom: [8, 8], top: [8, 1] },
    });
    await using client = await connect({ nats: url, token });
    const { digest, directory: kept, times } = await (await client.submit(job)).result();
    // All steps are counted, even those after the last heartbeat.
    t.is(times?.steps, smallSteps);
    const asked = ["--nats", url, "--token", token, "-o", "live.html", "--json"];
    const live = await runOk(t, ["report", "reported", ...asked], directory);
    // Without a browser no picture is made, and the error names a remedy.
    const without = ["env", `OSIRIS_BROWSER=${join(directory, "none")}`];
    const pictured = ["report", kept, "--png", "a.png"];
    const { code, stderr } = await startCli(pictured, directory, without).ended;
    t.false(existsSync(join(directory, "a.png")));
    t.is(code, 2, stderr);
    t.regex(stderr, /There is no browser on the PATH: install Chromium/);
    t.like(lastJson<object>(live), { report: "report", path: "live.html" });
    await runOk(t, ["report", kept, "-o", "kept.html"], directory);
    const text = readFileSync(join(directory, "live.html"), "utf8");
    t.is(text.match(/<\/script>/gi)?.length, 2, "no name closes a script element");
    t.notRegex(text, /src="http|href="http/);
    if (leavesOut(t, realBrowser)) return;
    const browser = await startBrowser();
    t.teardown(() => browser.close());
    for (const file of someOrAll(
      "reports in a browser",
      ["kept.html"],
      ["live.html", "kept.html"],
    )) {
      const address = String(pathToFileURL(join(directory, file)));
      await using tab = await openTab(browser, address, { width: 390, height: 844 });
      await tab.page.waitForSelector("#chart-loss canvas");
      await tab.page.waitForSelector(`code:text-is("${digest}")`);
      // The job is shown; unknown values are left out, not shown as 0.
      await tab.page.waitForSelector("#job dd:text('2 tables, 400 rows, dimension 8')");
      const shown = await tab.page.innerText("main");
      t.notRegex(shown, /0 shards|0 tables|0 B\b|–/, file);
      t.regex(shown, new RegExp(`Instruction sets\\s+${openKernels("auto").set}`), file);
      t.deepEqual(await brokenBoxes(tab.page), [], file);
      await tab.page.goto(`${address}#chart=loss`);
      await tab.page.waitForSelector("#chart-loss canvas");
      t.is(await tab.page.locator(".chart:visible").count(), 1);
      // The picture of a chart has last values in its legend, and no empty strip below.
      t.notRegex(await tab.page.innerText("#chart-loss .u-legend"), /--/);
      const below = await tab.page.evaluate<number>(belowChart);
      t.true(below >= 0 && below < 40, `${below} pixels below the chart`);
      t.deepEqual(tab.problems, []);
      if (file !== "kept.html") continue;
      // The log of the directory has the stage times, summed over all steps.
      await tab.page.goto(address);
      await tab.page.waitForSelector("#kept-stages dt:text-is('computing')");
      const stages = await tab.page.locator("#kept-stages dd").allTextContents();
      const ms = stages.map((stage) => Number.parseFloat(stage.trim()));
      const whole = Number.parseFloat(await tab.page.innerText("#kept-stages p"));
      t.true(
        Math.abs(ms.reduce((sum, one) => sum + one, 0) - whole) < 0.05 * whole,
        `${ms} of ${whole}`,
      );
    }
    await runOk(t, ["report", kept, "--png", "loss.png"], directory);
    t.is(readFileSync(join(directory, "loss.png")).subarray(1, 4).toString(), "PNG");
    const absent = ["report", kept, "--png", "none.png", "--chart", "misses"];
    const refused = await runCli(absent, directory);
    t.is(refused.code, 2, refused.stderr);
    t.regex(refused.stderr, /There is no chart `misses` in this report: it has loss/);
    t.false(existsSync(join(directory, "none.png")));
    // A directory without its log has no times, and the report says so.
    rmSync(join(kept, "logs"), { recursive: true });
    t.is((await runCli(["report", kept, "-o", "bare.html"], directory)).code, 0);
    await using bare = await openTab(browser, String(pathToFileURL(join(directory, "bare.html"))));
    await bare.page.waitForSelector("#kept-stages p:text('tells no times of steps')");
    await showsSlices(t, browser, { directory, kept });
  },
);

/** Checks that a report shows the metrics of evaluation slices as a table. */
async function showsSlices(
  t: ExecutionContext,
  browser: Browser,
  { directory, kept }: { readonly directory: string; readonly kept: string },
): Promise<void> {
  const metrics = {
    ...{ samples: 1200, positives: 3, logLoss: 0.5, auc: Number.NaN },
    ...{ normalizedEntropy: 0.9, calibration: 1.25 },
  };
  const slices = [{ column: "country", slices: [{ value: hostile, metrics }] }];
  writeFileSync(join(directory, "slices.html"), reportOfDirectory(kept, { slices }));
  const address = String(pathToFileURL(join(directory, "slices.html")));
  await using sliced = await openTab(browser, address);
  const panel = sliced.page.locator("section:has(> h2:text-is('By country'))");
  await panel.waitFor();
  t.deepEqual((await panel.locator("td").allTextContents()).slice(1), [
    "1,200",
    "3",
    "-",
    "0.5000",
    "0.9000",
    "1.2500",
  ]);
  t.deepEqual(sliced.problems, []);
}
