// Actions on the page by clicks in a real browser; and the page while a real thread and a real
// process of a run are killed.

import { stringify } from "yaml";
import { openTab } from "../../../../test/helpers/browsers.ts";
import {
  calmResult,
  inEpochs,
  only,
  startTestCluster,
} from "../../../../test/helpers/clusters/clusters.ts";
import { testAll } from "../../../../test/helpers/needs.ts";
import { startHost } from "../../../../test/helpers/processes/host-processes.ts";
import { dashboard } from "../../server/dashboard.ts";
import { withBrowser } from "./desk.ts";

withBrowser.test(
  "a job is submitted, paused, resumed, scaled and cancelled by clicks",
  async (t, { browser, scene }) => {
    const { place, url } = await scene();
    const { cluster } = place;
    await using tab = await openTab(browser, url);
    const { page } = tab;
    const endless = { kind: "synthetic", samples: 4000, dense: 4, batchSize: 64, epochs: 5000 };
    const slow = { devices: 2, stepDeadlineMs: 60_000 };
    const job = place.job({ ...slow, name: "clicked", data: endless as never });
    // Invalid job text is refused in the form where it was submitted.
    await page.click("summary:text('Submit a job')");
    await page.fill("textarea", JSON.stringify({ ...job, model: { kind: "none" } }));
    await page.click('button:text-is("Submit")');
    await page.waitForSelector('[role="alert"]');
    await page.click('button:text-is("Dismiss")');
    await page.fill("textarea", stringify(job)); // In YAML, like a job file.
    await page.click('button:text-is("Submit")');
    await page.waitForSelector('tr:has(td:text-is("clicked")) .state:text-is("running")');
    const line = (await cluster.client.list()).find(({ name }) => name === "clicked");
    t.is(line?.status, "running");
    const run = cluster.client.run(line?.run ?? "");
    await run.limitReaders({ samplesPerSecond: 2000 }); // The browser needs a core too.
    const row = `tr:has(a:text-is("${run.run}"))`;
    const state = (name: string) => page.waitForSelector(`${row} .state:text-is("${name}")`);
    const click = (what: string) => page.click(`button[aria-label="${what} ${run.run}"]`);

    await click("Pause");
    await state("paused");
    t.is((await run.status()).status, "paused");
    await click("Resume");
    await state("running");
    page.removeAllListeners("dialog");
    page.once("dialog", (dialog) => void dialog.accept("1"));
    await click("Scale");
    for await (const event of run.events()) {
      if (event.type === "run.started" && event.devices === 1) break;
    }
    await page.click(`${row} a`);
    await page.waitForSelector('.figures div:has(dt:text-is("Devices")) dd:text-is("1")');
    await page.click('nav a:text-is("Runs")');
    await click("Cancel");
    await state("cancelled");
    t.is((await run.status()).status, "cancelled");
    t.is(await page.locator(`${row} button`).count(), 0, "nothing more can be done with it");
    // The browser itself logs the 4xx response to the refused submission.
    t.deepEqual(
      tab.problems.filter((one) => !one.includes("status of 4")),
      [],
    );
  },
);

withBrowser.test(
  "a killed thread and a killed host show in tree and timeline, and the digest is the same",
  async (t, { browser }) => {
    const calm = await calmResult(4);
    await using place = await startTestCluster(1, { minDevices: 2, dashboard: dashboard() });
    const { cluster, threads } = place;
    const process = await startHost(t, cluster, { devices: 1 });
    const job = inEpochs(place.job({ name: "broken", stepDeadlineMs: 60_000 }), 4);
    const run = await cluster.submit(job);
    // So slow that the run does not end before a busy machine has shown everything.
    await run.limitReaders({ samplesPerSecond: 60 });
    const { url = "" } = cluster.dashboard ?? {};
    await using tree = await openTab(browser, `${url}#/tree`);
    await using timeline = await openTab(browser, `${url}#/incidents/${run.run}`);
    const device = (index: number) => `[data-actor="device:${index}"]`;
    await tree.page.waitForSelector(device(0));
    await tree.page.waitForSelector(device(1));
    await timeline.page.waitForSelector("p.empty");

    t.true(threads.kill("device:0"), "device:0 runs");
    await tree.page.waitForSelector(`${device(0)} .badge.bad:text("restarted ×1")`);
    await timeline.page.waitForSelector(
      'article[aria-label="Incident 1"] h3:text("device:0 failed")',
    );
    await timeline.page.waitForSelector(
      'article[aria-label="Incident 1"] .state:text-is("restored")',
    );

    process.kill("SIGKILL");
    const lost = `host:${process.host}`;
    await timeline.page.waitForSelector(
      `article[aria-label="Incident 2"] h3:text("${lost} failed")`,
    );
    await timeline.page.waitForSelector(
      'article[aria-label="Incident 2"] .phase:text-is("restore")',
    );
    // The subtree of the killed process disappears: its device now runs below the other host.
    await tree.page.waitForSelector(`[data-key="process ${process.host}"]`, { state: "detached" });
    await tree.page.waitForSelector(device(1), { state: "detached" });
    await tree.page.waitForSelector(`${device(0)} .badge.bad:text("restarted ×2")`);

    await run.limitReaders({ samplesPerSecond: 1e6 });
    const { digest, history } = await run.result();
    t.is(digest, calm.digest);
    t.deepEqual(history, calm.history);
    await timeline.page.click('nav a:text-is("Run")');
    await timeline.page.waitForSelector(`code:text-is("${digest}")`);
    const events = [];
    for await (const event of run.past()) events.push(event);
    t.deepEqual(
      only(events, "run.incident").map(({ offender }) => offender),
      ["device:0", lost],
    );
    t.deepEqual([...tree.problems, ...timeline.problems], []);
  },
  testAll,
);
