// The dashboard's page, seen in a real browser on a live cluster: one cluster and one browser for
// all, as both take seconds to start.

import test, { type ExecutionContext } from "ava";
import type { Browser, Page } from "playwright-core";
import type { Run } from "../../../index.ts";
import { brokenBoxes, openTab, realBrowser, startBrowser } from "../../helpers/browsers.ts";
import { startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";
import { testIf } from "../../helpers/needs.ts";

const views = ["runs", "run", "tree", "incidents", "tiers", "plan", "hosts", "chaos"];
const wide = { width: 1280, height: 900 };
const narrow = { width: 390, height: 844 };
const hostile = "<img src=x onerror=alert(1)>";

interface Scene extends AsyncDisposable {
  readonly place: TestCluster;
  readonly browser: Browser;
  readonly run: Run;
  readonly url: string;
}

let started: Promise<Scene> | undefined;

/** A cluster with a run that goes on for as long as anybody looks. */
function scene(): Promise<Scene> {
  started ??= (async () => {
    const browser = await startBrowser();
    const place = await startTestCluster(2, {
      dashboard: { port: 0, allow: ["control", "faults"] },
    });
    const job = place.job({
      name: "watched",
      data: { kind: "synthetic", samples: 20_000, dense: 4, batchSize: 64, epochs: 1000 },
      model: {
        kind: "dlrm",
        dense: 4,
        tables: [hostile, "b"].map((name) => ({ name, rows: 200, dim: 8 })),
        bottom: [8, 8],
        top: [8, 1],
      },
      // None by itself: a test that wants one says when.
      checkpoint: { everySteps: 100_000 },
      evaluation: { everySteps: 10 },
    });
    const run = await place.cluster.submit(job);
    await run.limitReaders({ samplesPerSecond: 10_000 }); // The browser needs a core too.
    const url = place.cluster.dashboard?.url ?? "";
    const close = async () => {
      await browser.close();
      await place[Symbol.asyncDispose]();
    };
    return { place, browser, run, url, [Symbol.asyncDispose]: close };
  })();
  return started;
}

test.after.always(async () => {
  if (started !== undefined) await (await started)[Symbol.asyncDispose]();
});

const show = async (page: Page, view: string) => {
  await page.click(`nav a[href^="#/${view}/"], nav a[href="#/${view}"]`);
  await page.waitForSelector(
    `nav a[aria-current]:text-is("${view[0]?.toUpperCase()}${view.slice(1)}")`,
  );
  await page.waitForSelector("main h2");
};

/** What a view has to show of a live run. */
const seen: Readonly<Record<string, string>> = {
  runs: "tbody th a",
  run: "#chart-loss canvas",
  tree: '[data-actor="device:1"]',
  incidents: "#incidents-title",
  tiers: "#tiers-title",
  plan: 'td:text-is("<img src=x onerror=alert(1)>")',
  hosts: 'tbody th:text-is("host:0")',
  chaos: "form select",
};

async function lookAtAll(t: ExecutionContext, size: typeof wide, scheme: "light" | "dark") {
  const { browser, url } = await scene();
  await using tab = await openTab(browser, url, size, { colorScheme: scheme });
  await tab.page.waitForSelector(".live.on");
  for (const view of views) {
    await show(tab.page, view);
    await tab.page.waitForSelector(seen[view] ?? "h2");
    t.deepEqual(await brokenBoxes(tab.page), [], `${view} at ${size.width} pixels`);
  }
  t.deepEqual(tab.problems, []);
}

testIf(realBrowser).serial(
  "every view shows a live run at 1,280 pixels, names with markup as text",
  async (t) => {
    await lookAtAll(t, wide, "light");
  },
);

testIf(realBrowser).serial("every view fits into 390 pixels, in the dark", async (t) => {
  await lookAtAll(t, narrow, "dark");
});

testIf(realBrowser).serial(
  "a device that fails is seen: its branch flashes and counts, its incident is timed",
  async (t) => {
    const { browser, run, url } = await scene();
    await using tab = await openTab(browser, url);
    await using tree = await openTab(browser, url);
    await show(tree.page, "tree");
    await tree.page.waitForSelector('[data-actor="device:1"]');
    // A flash is short: the page itself notes it, however late a slow machine looks.
    await tree.page.evaluate(noteFlash);
    await show(tab.page, "run");
    await tab.page.waitForSelector("#chart-loss canvas");
    await show(tab.page, "chaos");
    await tab.page.selectOption("form select", "device:1");
    // What is told between the checkpoint and the fault is told twice.
    const { step } = await run.checkpoint();
    for await (const event of run.events()) {
      if (event.type === "run.evaluated" && event.step > step) break;
    }
    await tab.page.click("form button");
    await tree.page.waitForSelector('[data-actor="device:1"] .badge.bad:text("restarted ×1")');
    t.true(await tree.page.evaluate<boolean>("window.hasFlashed === true"));
    await show(tab.page, "incidents");
    await tab.page.waitForSelector(".timeline .done");
    const phases = await tab.page.locator(".timeline .phase").allTextContents();
    t.deepEqual(phases.slice(-4), ["decide", "restore", "replay", "caught up"]);
    const times = await tab.page.locator(".timeline .ms").allTextContents();
    t.true(
      times.every((text) => /^[\d,]+ ms$/.test(text)),
      times.join(),
    );
    await tab.page.waitForSelector('.mark.good:text("bits equal")');
    t.deepEqual([...tab.problems, ...tree.problems], []);
  },
);

const noteFlash = `new MutationObserver(() => {
  if (document.querySelector('[data-actor="device:1"].flash') !== null) window.hasFlashed = true;
}).observe(document.body, { subtree: true, childList: true, attributes: true })`;

testIf(realBrowser).serial(
  "the keyboard alone reaches every view, and looks into an actor",
  async (t) => {
    const { browser, url } = await scene();
    await using tab = await openTab(browser, url);
    const { page } = tab;
    await page.waitForSelector("tbody th a");
    const focused = () => page.evaluate<string>("document.activeElement.textContent.trim()");
    const isIn = (role: string) =>
      page.evaluate<boolean>(`document.activeElement.getAttribute("role") === "${role}"`);
    await page.keyboard.press("Tab");
    t.is(await focused(), "Skip to content");
    const reached: string[] = [];
    for (const _ of views) {
      await page.keyboard.press("Tab");
      reached.push(await focused());
    }
    t.deepEqual(reached, ["Runs", "Run", "Tree", "Incidents", "Tiers", "Plan", "Hosts", "Chaos"]);
    await page.focus('nav a:text-is("Tree")');
    await page.keyboard.press("Enter");
    await page.waitForSelector('[data-actor="device:0"]');
    for (let presses = 0; presses < 12 && !(await isIn("treeitem")); presses++) {
      await page.keyboard.press("Tab");
    }
    for (let presses = 0; presses < 20 && !(await focused()).includes("device:0"); presses++) {
      await page.keyboard.press("ArrowDown");
    }
    t.regex(await focused(), /device:0/);
    await page.keyboard.press("Enter");
    await page.waitForSelector('section[aria-label="Actor device:0"] dd');
    await page.waitForSelector(
      'section[aria-label="Actor device:0"] .messages li b:text("device.")',
    );
    t.deepEqual(tab.problems, []);
  },
);

testIf(realBrowser).serial(
  "whoever listens instead of looking hears a name of every field and chart",
  async (t) => {
    const { browser, url } = await scene();
    await using tab = await openTab(browser, url);
    for (const view of views) {
      await show(tab.page, view);
      const nameless = await tab.page.evaluate<string[]>(findNameless);
      t.deepEqual(nameless, [], view);
    }
  },
);

const findNameless = `[...document.querySelectorAll(
  "button, a, input, select, textarea, meter, progress, [role=img], [role=treeitem], main > section"
)].filter((one) => {
  const labelled = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby");
  return !labelled && !one.textContent.trim() && !(one.labels && one.labels.length > 0);
}).map((one) => one.outerHTML.slice(0, 120))`;

testIf(realBrowser).serial(
  "a page finds the server that was started again, and its figures go on",
  async (t) => {
    const { browser } = await scene();
    const token = "the-same-token-again";
    await using first = await startTestCluster(1, { dashboard: { token } });
    const { url = "" } = first.cluster.dashboard ?? {};
    const port = Number(new URL(url).port);
    const tab = await openTab(browser, url);
    await tab.page.waitForSelector(".live.on");
    await first.cluster.close();
    await tab.page.waitForSelector(".live.off");
    await using second = await startTestCluster(1, { dashboard: { token, port } });
    await tab.page.waitForSelector(".live.on");
    const run = await second.cluster.submit(second.job({ name: "after" }));
    await tab.page.waitForSelector('td.name:text-is("after")');
    await run.result();
    await tab.page.waitForSelector('.state:text-is("finished")');
    // The browser itself tells of the connections that were refused meanwhile.
    t.deepEqual(
      tab.problems.filter(
        (one) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE/.test(one),
      ),
      [],
    );
    await tab[Symbol.asyncDispose]();
  },
);
