// The page's state: the cluster's overview, its runs, and the stories of the runs that are viewed.
// Views draw it at most a few times a second, however many changes arrive.
//
// Invariants
//   P1. The page draws at most once in `drawEveryMs`, and not at all while it is hidden.
//   P2. Stories of at most `storiesMax` runs are kept; the least recently viewed one is dropped.

import type {
  Hello,
  OverviewReport,
  ReportChanges,
  RunHistory,
  RunLine,
  RunSummary,
  TimedEvent,
} from "../server/page-api.ts";
import { get, openFeed } from "./feed.ts";
import { RunStory } from "./model/run-story.ts";
import { eachInSlices } from "./turns.ts";

/** P1 */
const drawEveryMs = 250;
/** P2 */
const storiesMax = 8;
/** Most runs whose options are kept. */
const optionsMax = 50;
/** Shortest time between two requests of the list of runs, made after events that change it. */
const listEveryMs = 1000;

/** Live figures of a run for the list, in addition to the run's line. */
export interface RunFigures {
  step?: number;
  steps?: number;
  samplesPerSecond?: number;
  secondsLeft?: number | undefined;
  auc?: number | undefined;
  state?: string;
}

const listChanges: ReadonlySet<string> = new Set([
  ...["run.queued", "run.started", "run.finished", "run.failed", "run.paused", "run.resumed"],
  "run.preempted",
]);

export class Store {
  hello: Hello | undefined;
  isConnected = false;
  report: OverviewReport | undefined;
  /** Whether this page is a report file, instead of live. */
  readonly isFile: boolean;
  runs: readonly RunLine[] = [];
  readonly figures = new Map<string, RunFigures>();
  /** The message of the last failure, for people. */
  notice = "";
  readonly #stories = new Map<string, RunStory>();
  readonly #waiting = new Map<string, TimedEvent[]>();
  readonly #summaries = new Map<string, RunSummary | "pending">();
  readonly #options = new Map<string, NonNullable<RunSummary["options"]> | "pending">();
  #draw: () => void = () => {};
  #isDue = false;
  #drawnAtMs = 0;
  #isListing = false;
  #isListOld = false;

  constructor(isFile = false) {
    this.isFile = isFile;
  }

  /** Opens the feed; `draw` is called when there is something new to draw. */
  open(draw: () => void): void {
    this.#draw = draw;
    if (this.isFile) return;
    openFeed({
      hello: (hello) => {
        const isAnother = this.hello !== undefined && this.hello.epoch !== hello.epoch;
        this.hello = hello;
        if (hello.isGap || isAnother) this.#begin();
        this.changed();
      },
      events: (events) => this.take(events),
      report: (changes) => this.#take(changes),
      connected: (isConnected) => {
        this.isConnected = isConnected;
        this.changed();
      },
    });
    document.addEventListener("visibilitychange", () => this.changed());
  }

  /** Schedules a drawing. P1 */
  changed(): void {
    if (this.#isDue || (!this.isFile && document.hidden)) return;
    this.#isDue = true;
    const waitMs = Math.max(0, this.#drawnAtMs + drawEveryMs - performance.now());
    setTimeout(() => {
      requestAnimationFrame(() => {
        this.#isDue = false;
        this.#drawnAtMs = performance.now();
        this.#draw();
      });
    }, waitMs);
  }

  /** Draws without delay, after an action of the user. */
  drawNow(): void {
    this.#drawnAtMs = 0;
    this.changed();
  }

  /** The story of a run, which is requested on first use. P2 */
  story(run: string): RunStory {
    const known = this.#stories.get(run);
    if (known !== undefined) {
      this.#stories.delete(run);
      this.#stories.set(run, known); // The most recently viewed one.
      return known;
    }
    const story = new RunStory(run);
    this.#stories.set(run, story);
    const [oldest] = this.#stories.keys();
    if (this.#stories.size > storiesMax && oldest !== undefined) this.#stories.delete(oldest);
    if (!this.isFile) void this.#load(story);
    return story;
  }

  /** The summary of a run that is over; undefined while it is being requested. */
  summary(run: string): RunSummary | undefined {
    const known = this.#summaries.get(run);
    if (known !== undefined || this.isFile) return known === "pending" ? undefined : known;
    this.#summaries.set(run, "pending");
    get<RunSummary>(`/api/runs/${encodeURIComponent(run)}`).then(
      (summary) => {
        this.#summaries.set(run, summary);
        this.changed();
      },
      () => this.#summaries.delete(run),
    );
    return undefined;
  }

  /** The options of a run's job; undefined while they are being requested, or where unknown. */
  optionsOf({ run, options }: RunStory): RunSummary["options"] {
    if (options !== undefined || this.isFile || run === "") return options;
    const known = this.#options.get(run);
    if (known !== undefined) return known === "pending" ? undefined : known;
    this.#options.set(run, "pending");
    if (this.#options.size > optionsMax) {
      const [oldest] = this.#options.keys();
      if (oldest !== undefined) this.#options.delete(oldest);
    }
    get<RunSummary>(`/api/runs/${encodeURIComponent(run)}`).then(
      ({ options: own = [] }) => {
        this.#options.set(run, own);
        this.changed();
      },
      () => this.#options.delete(run),
    );
    return undefined;
  }

  /** Takes events as they arrive. */
  take(events: readonly TimedEvent[]): void {
    for (const timed of events) {
      const { event } = timed;
      this.#noteFigures(timed);
      this.#waiting.get(event.run)?.push(timed);
      this.#stories.get(event.run)?.take(timed);
      if (listChanges.has(event.type)) this.#list();
    }
    this.changed();
  }

  /** Awaits an action of the user, and shows its error if it fails. */
  attempt(what: Promise<unknown>): void {
    what.then(
      () => this.drawNow(),
      (error: unknown) => {
        this.notice = error instanceof Error ? error.message : String(error);
        this.drawNow();
      },
    );
  }

  /** Requests everything again: a stream has begun, and events may be missing. */
  #begin(): void {
    this.#list();
    for (const [run] of this.#stories) {
      const story = new RunStory(run);
      this.#stories.set(run, story);
      void this.#load(story);
    }
  }

  async #load(story: RunStory): Promise<void> {
    const { run } = story;
    const waiting: TimedEvent[] = [];
    this.#waiting.set(run, waiting);
    try {
      const path = `/api/runs/${encodeURIComponent(run)}/events`;
      const { events } = await get<RunHistory>(path);
      const whole = new RunStory(run);
      await eachInSlices(events, (timed) => whole.take(timed));
      await eachInSlices(waiting, (timed) => whole.take(timed)); // Events that arrived meanwhile.
      if (this.#stories.get(run) === story) this.#stories.set(run, whole);
    } catch (error) {
      this.notice = error instanceof Error ? error.message : String(error);
    }
    if (this.#waiting.get(run) === waiting) this.#waiting.delete(run);
    this.changed();
  }

  #take(changes: ReportChanges): void {
    const before = this.report ?? { cluster: "", runs: [], processes: [], unresponsive: [] };
    this.report = { ...before, ...changes };
    this.changed();
  }

  #list(): void {
    if (this.#isListing) {
      this.#isListOld = true;
      return;
    }
    this.#isListing = true;
    get<RunLine[]>("/api/runs")
      .then((runs) => {
        this.runs = runs;
        this.changed();
      })
      .catch(() => {})
      .finally(() => {
        setTimeout(() => {
          this.#isListing = false;
          if (this.#isListOld) this.#list();
          this.#isListOld = false;
        }, listEveryMs);
      });
  }

  #noteFigures({ event }: TimedEvent): void {
    const { run, type } = event;
    const former = this.figures.get(run) ?? {};
    if (type === "run.progress") {
      const { step, steps, samplesPerSecond, secondsLeft } = event;
      this.figures.set(run, { ...former, step, steps, samplesPerSecond, secondsLeft });
    } else if (type === "run.evaluated") {
      this.figures.set(run, { ...former, auc: event.metrics.auc });
    } else if (type === "run.incident" && event.end === undefined) {
      this.figures.set(run, { ...former, samplesPerSecond: 0, state: "recovering" });
    } else if (type === "run.started" || type === "run.recovered") {
      this.figures.set(run, { ...former, state: "running" });
    }
  }
}
