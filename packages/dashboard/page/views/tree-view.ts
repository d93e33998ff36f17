// The supervision tree of all processes, with the state of each actor. A restarted actor flashes.
// The cluster's own actors are hidden by default, and many actors of one kind are folded.
//
// Keys: up and down move, right unfolds, left folds, Enter shows an actor's details.

import { bytes, count, duration } from "../../../../cli/support/format.ts";
import type { ActorDetail, ActorOverview, OverviewReport } from "../../server/page-api.ts";
import { Component, html } from "../dom.ts";
import { get } from "../feed.ts";
import type { Store } from "../store.ts";
import { inTurn, leaveTurn } from "../turns.ts";

/** More children of one kind than this are one line until they are unfolded. */
const alikeMax = 16;
/** Lines that are added in one frame: a large tree takes several frames. */
const linesAtOnce = 24;
/** How long an actor flashes after its restart. */
const flashMs = 2500;
/** Interval at which the details of the chosen actor are requested again. */
const lookEveryMs = 2000;

/** A drawn line of the tree. */
interface Row {
  readonly key: string;
  readonly depth: number;
  readonly name: string;
  readonly detail: string;
  readonly actor?: { readonly host: string; readonly actor: string; readonly run?: string };
  readonly generation?: number | undefined;
  readonly work: number;
  /** Whether the line has children, and whether they are shown. */
  readonly fold: "open" | "closed" | "none";
}

interface State {
  readonly focus: string;
  readonly detail?: ActorDetail | undefined;
  readonly problem?: string | undefined;
}

export class TreeView extends Component<{ readonly store: Store }, State> {
  override state: State = { focus: "" };
  /** Lines that the user folded or unfolded; true: open. */
  readonly #folds = new Map<string, boolean>();
  readonly #generations = new Map<string, number>();
  readonly #restarts = new Map<string, { times: number; atMs: number }>();
  readonly #chooseRow = (row: Row) => this.#choose(row);
  #isSystemShown = false;
  /** Number of lines in the document, from the first on. */
  #drawn = linesAtOnce;
  /** The report that was drawn last: only another one needs drawing. */
  #report: OverviewReport | undefined;
  #looked: Row["actor"];
  #timer: ReturnType<typeof setInterval> | undefined;
  #list: HTMLElement | null = null;

  override componentDidMount(): void {
    this.#timer = setInterval(() => {
      if (this.#looked !== undefined) void this.#look(this.#looked);
    }, lookEveryMs);
  }

  override componentWillUnmount(): void {
    clearInterval(this.#timer);
    leaveTurn(this);
  }

  override shouldComponentUpdate(_: unknown, state: State): boolean {
    return this.props.store.report !== this.#report || state !== this.state;
  }

  render() {
    const { report } = this.props.store;
    this.#report = report;
    if (report === undefined) return html`<p class="empty">The tree is being requested …</p>`;
    const rows = this.#rows(report);
    const { focus, detail, problem } = this.state;
    const at = Math.max(
      0,
      rows.findIndex(({ key }) => key === focus),
    );
    const focused = rows[at]?.key ?? "";
    this.#drawn = Math.max(this.#drawn, at + 1);
    if (this.#drawn < rows.length) {
      inTurn(this, () => {
        this.#drawn += linesAtOnce;
        this.forceUpdate();
      });
    }
    return html`<section aria-labelledby="tree-title">
      <div class="bar"><h2 id="tree-title">Supervision tree</h2>
        <label><input type="checkbox" checked=${this.#isSystemShown} onChange=${() => {
          this.#isSystemShown = !this.#isSystemShown;
          this.forceUpdate();
        }} /> system actors</label></div>
      <div class="split">
        <ul class="tree" role="tree" aria-labelledby="tree-title" ref=${(
          list: HTMLElement | null,
        ) => {
          this.#list = list;
        }} onKeyDown=${(event: KeyboardEvent) => this.#key(event, rows, focused)}>
          ${rows.slice(0, this.#drawn).map((row) => this.#line(row, row.key === focused))}
        </ul>
        ${problem === undefined ? null : html`<p class="panel" role="status">${problem}</p>`}
        ${detail === undefined ? null : html`<${ActorPanel} detail=${detail} />`}
      </div>
    </section>`;
  }

  #line(row: Row, isFocused: boolean) {
    const restarted = this.#restarts.get(row.key);
    const isFlashing = restarted !== undefined && performance.now() - restarted.atMs < flashMs;
    return html`<${Line} key=${row.key} row=${row} isFocused=${isFocused} restarts=${restarted?.times}
      isFlashing=${isFlashing} choose=${this.#chooseRow} />`;
  }

  #rows({ processes, unresponsive }: OverviewReport): Row[] {
    const rows: Row[] = [];
    for (const { host, machine, pid, actors } of processes) {
      const of = String(host ?? "leader");
      const key = `process ${of}`;
      const isOpen = this.#folds.get(key) ?? true;
      const name = host === null ? "leader" : `host:${host}`;
      const detail = pid === 0 ? machine : `process ${pid} on ${machine}`;
      rows.push({ key, depth: 0, name, detail, work: 0, fold: isOpen ? "open" : "closed" });
      if (isOpen) this.#branch(rows, actors, { depth: 1, host: of, path: key });
    }
    for (const host of unresponsive) {
      const key = `unresponsive ${host}`;
      rows.push({
        key,
        depth: 0,
        name: `host:${host}`,
        detail: "no answer",
        work: 0,
        fold: "none",
      });
    }
    return rows;
  }

  /**
   * Adds the rows of an actor and its children. Hidden system actors are left out, unless they lead
   * to a run.
   */
  #branch(
    rows: Row[],
    node: ActorOverview,
    { depth, host, path }: { depth: number; host: string; path: string },
  ): void {
    if (!this.#isSystemShown && node.run === undefined && !leadsToRun(node)) return;
    const key = `${path}/${node.run ?? ""}${node.actor}`;
    this.#noteRestart(key, node.generation);
    const shards = Object.entries(node.shards ?? {}).map(
      ([state, shardCount]) => `${count(shardCount)} shards ${state}`,
    );
    const detail = [node.run, node.state, ...shards].filter(Boolean).join(" · ");
    const hasBelow = node.children.length > 0;
    const isOpen = this.#folds.get(key) ?? true;
    const fold = hasBelow ? (isOpen ? "open" : "closed") : "none";
    const run = node.run === undefined ? {} : { run: node.run };
    const actor = { host, actor: node.actor, ...run };
    rows.push({
      key,
      depth,
      name: node.actor,
      detail,
      actor,
      work: node.depth,
      fold,
      generation: node.generation,
    });
    if (!hasBelow || !isOpen) return;
    const below = { depth: depth + 1, host, path: key };
    for (const [role, alike] of byRole(node.children)) {
      if (alike.length <= alikeMax) {
        for (const child of alike) this.#branch(rows, child, below);
        continue;
      }
      const groupKey = `${key}/all ${role}`;
      const isGroupOpen = this.#folds.get(groupKey) ?? false;
      for (const child of alike)
        this.#noteRestart(`${groupKey}/${child.run ?? ""}${child.actor}`, child.generation);
      rows.push({
        ...{ key: groupKey, depth: depth + 1, name: `${role} × ${count(alike.length)}` },
        ...{ detail: statesOf(alike), fold: isGroupOpen ? "open" : "closed" },
        work: alike.reduce((sum, one) => sum + one.depth, 0),
      });
      const inGroup = { depth: depth + 2, host, path: groupKey };
      for (const child of isGroupOpen ? alike : []) this.#branch(rows, child, inGroup);
    }
  }

  /** A later generation of the same actor of the same run is a restart. */
  #noteRestart(key: string, generation: number | undefined): void {
    if (generation === undefined) return;
    const before = this.#generations.get(key);
    this.#generations.set(key, generation);
    if (before === undefined || before >= generation) return;
    const times = (this.#restarts.get(key)?.times ?? 0) + 1;
    this.#restarts.set(key, { times, atMs: performance.now() });
    setTimeout(() => this.forceUpdate(), flashMs);
  }

  #choose({ key, actor, fold }: Row): void {
    if (actor === undefined && fold !== "none") this.#folds.set(key, fold === "closed");
    this.setState({ focus: key });
    if (actor !== undefined) void this.#look(actor);
  }

  async #look(actor: NonNullable<Row["actor"]>): Promise<void> {
    this.#looked = actor;
    const query = new URLSearchParams({ ...actor });
    try {
      const detail = await get<ActorDetail>(`/api/actor?${query}`);
      if (this.#looked === actor) this.setState({ detail, problem: undefined });
    } catch {
      if (this.#looked !== actor) return;
      this.setState({ detail: undefined, problem: `There is no ${actor.actor} now.` });
    }
  }

  #key(event: KeyboardEvent, rows: readonly Row[], focused: string): void {
    const at = rows.findIndex(({ key }) => key === focused);
    const row = rows[at];
    if (row === undefined) return;
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
    };
    const to = rows[steps[event.key] ?? -1];
    if (to !== undefined) this.#focus(to.key);
    else if (event.key === "ArrowRight" && row.fold === "closed") this.#folds.set(row.key, true);
    else if (event.key === "ArrowLeft" && row.fold === "open") this.#folds.set(row.key, false);
    else if (event.key === "Enter" || event.key === " ") this.#choose(row);
    else if (steps[event.key] === undefined) return;
    event.preventDefault();
    this.forceUpdate();
  }

  #focus(key: string): void {
    this.setState({ focus: key }, () => {
      this.#list?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
    });
  }
}

interface LineProps {
  readonly row: Row;
  readonly isFocused: boolean;
  readonly restarts: number | undefined;
  readonly isFlashing: boolean;
  readonly choose: (row: Row) => void;
}

const shownFields = ["key", "depth", "name", "detail", "generation", "work", "fold"] as const;

/**
 * A line of the tree. An unchanged line is not drawn again, as few lines of a large cluster change.
 */
class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps): boolean {
    const [before, row] = [this.props.row, next.row];
    return (
      next.isFocused !== this.props.isFocused ||
      next.isFlashing !== this.props.isFlashing ||
      next.restarts !== this.props.restarts ||
      shownFields.some((field) => row[field] !== before[field])
    );
  }

  render() {
    const { row, isFocused, restarts, isFlashing, choose } = this.props;
    const { key, depth, name, detail, generation, work, fold } = row;
    return html`<li role="treeitem" data-key=${key} data-actor=${name} aria-level=${depth + 1}
      aria-expanded=${fold === "none" ? undefined : fold === "open" ? "true" : "false"}
      tabIndex=${isFocused ? 0 : -1} class=${isFlashing ? "flash" : ""} style=${{ paddingInlineStart: `${depth * 18 + 6}px` }}
      onClick=${() => choose(this.props.row)}>
      <span class="fold" aria-hidden="true">${fold === "none" ? "·" : fold === "open" ? "▾" : "▸"}</span>
      <span class="actor">${name}</span> <span class="dim">${detail}</span>
      ${(generation ?? 0) > 1 ? html` <span class="badge">generation ${generation}</span>` : null}
      ${restarts === undefined ? null : html` <span class="badge bad">restarted ×${restarts}</span>`}
      ${work > 0 ? html` <span class="badge">${count(work)} to do</span>` : null}</li>`;
  }
}

function leadsToRun(node: ActorOverview): boolean {
  return node.run !== undefined || node.children.some(leadsToRun);
}

function byRole(children: readonly ActorOverview[]): Map<string, ActorOverview[]> {
  const roles = new Map<string, ActorOverview[]>();
  for (const child of children) {
    const [role = ""] = child.actor.split(":");
    const alike = roles.get(role);
    if (alike === undefined) roles.set(role, [child]);
    else alike.push(child);
  }
  return roles;
}

/** `training 127, restoring 1` */
function statesOf(alike: readonly ActorOverview[]): string {
  const states = new Map<string, number>();
  for (const { state } of alike) states.set(state, (states.get(state) ?? 0) + 1);
  return [...states].map(([state, times]) => `${state} ${count(times)}`).join(", ");
}

function ActorPanel({ detail }: { readonly detail: ActorDetail }) {
  const { actor, run, generation, state, mailbox, children, host, waits, messages } = detail;
  const lines: readonly [string, string][] = [
    ["State", state],
    ["Process", host === null ? "leader" : `host:${host}`],
    ["Run", run ?? "–"],
    ["Generation", String(generation ?? "–")],
    ["Supervises", `${children} actors`],
    ["Messages", mailbox === undefined ? "–" : count(mailbox.messages)],
    ["Last message", mailbox === undefined ? "–" : `${duration(mailbox.lastMs / 1000)} ago`],
    ["Mailbox", mailbox === undefined ? "–" : `${count(mailbox.depth)} to do`],
  ];
  return html`<section class="panel" aria-live="polite" aria-label=${`Actor ${actor}`}><h3>${actor}</h3>
    <dl class="lines">${lines.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <h4>Waits for</h4>
    ${
      waits.length === 0
        ? html`<p class="dim">nobody</p>`
        : html`<ul>${waits.map(({ waiter, awaited, what, forMs }) => html`<li>${waiter} waits for ${awaited}: ${what} (${duration(forMs / 1000)})</li>`)}</ul>`
    }
    <h4>Last messages</h4>
    ${
      messages.length === 0
        ? html`<p class="dim">none</p>`
        : html`<ul class="messages">${messages.map(
            ({ type, from, agoMs, bytes: size, text }) => html`<li><b>${type}</b> from ${from}
              <span class="dim">${duration(agoMs / 1000)} ago, ${bytes(size)}</span>
              ${text === undefined ? null : html`<br /><code>${text}</code>`}</li>`,
          )}</ul>`
    }</section>`;
}
