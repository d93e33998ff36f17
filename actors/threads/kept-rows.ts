// The kept rows of a run on a host: memory of tiles that outlives the threads that train them. The
// next generation gives each device the tiles that it holds there, too, so that only the others are
// read (docs/decisions/0041-surviving-hosts-keep-their-rows.md).
//
// Invariants
//   R1. A tile is given to a thread only once the exits of all threads that had it were seen
//       (law 3).
//   R2. A tile belongs to one device of the present generation; tiles that no device holds are
//       dropped when a generation begins.
//   R3. Reports of tiles by threads of an older generation are ignored.

import { type KeptTile, RowKeeper, tileKey } from "../../src/embedding/rows/row-keeper.ts";
import { type CutId, initialCut, undoTo } from "../../src/embedding/rows/undo-log.ts";
import type { Cancel, Clock } from "../../src/ports/clock.ts";
import { shardsOn } from "../../src/training/topology/private-memory.ts";
import type { GenerationLayout } from "./generation-layout.ts";
import type { GenerationSpec, HostPlace } from "./generation-spec.ts";

/** The tiles and memory with which a device's thread keeps rows. Plain data and shared memory. */
export interface RowsToKeep {
  readonly tiles: readonly KeptTile[];
  /** Bytes of its undo logs; 0: it keeps no rows. */
  readonly undoBytes: number;
}

/** A device's share of the kept rows, for one generation. */
export interface RowLease {
  readonly rows: RowsToKeep;
  /** Shards of the job that `rows.tiles` hold. */
  readonly shards: ReadonlySet<number>;
  /** Resolves once the tiles may be used; undefined: at once. R1 */
  readonly exits: Promise<unknown> | undefined;
  /** The thread holds these tiles, and will go on to change them. */
  put(tiles: readonly KeptTile[]): void;
  /** A former thread does not exit: its tiles are never used again. */
  giveUp(): void;
  /** The thread has exited, or will never start. */
  end(): void;
}

/** How long rows are kept after their generation, if no other generation comes. */
const keptMs = 120_000;

interface Held {
  readonly tile: KeptTile;
  readonly ended: Promise<unknown>;
}

export class KeptRows {
  #held = new Map<string, Held>();
  #turn = 0;
  #forgetExpiry: Cancel = () => {};

  /** Drops all tiles. Their memory is freed once no thread uses it. */
  clear(): void {
    this.#turn++;
    this.#held = new Map();
    this.#forgetExpiry();
  }

  /**
   * The generation is over: its rows are cleared unless another one begins in time. Returns a
   * function that ends the wait.
   */
  expire(clock: Clock): Cancel {
    this.#forgetExpiry();
    this.#forgetExpiry = clock.after(keptMs, () => this.clear());
    return this.#forgetExpiry;
  }

  /** Divides the rows among the devices of a new generation on its host, in the order of ranks. */
  lend(
    spec: GenerationSpec,
    layout: GenerationLayout,
    place: HostPlace,
    undoBytes: number,
  ): RowLease[] {
    this.#forgetExpiry();
    const at = cutOf(spec);
    const byKey = new Map<string, Held[]>();
    for (const one of undoBytes === 0 ? [] : this.#held.values()) {
      if (undoTo(one.tile.undo, at) === undefined) continue;
      byKey.set(one.tile.key, [...(byKey.get(one.tile.key) ?? []), one]);
    }
    this.#held = new Map();
    const turn = ++this.#turn;
    return Array.from({ length: place.count }, (_, i) => {
      const own: Held[] = [];
      const shards = new Set<number>();
      const rank = place.first + i;
      for (const shard of shardsOn(layout.topology, rank)) {
        const found = shard.tier === "memory" && byKey.get(tileKey(shard, rank))?.shift();
        if (!found) continue;
        own.push(found);
        shards.add(shard.shard);
      }
      return this.#lease(own, shards, turn, undoBytes / place.count);
    });
  }

  #lease(
    own: readonly Held[],
    shards: ReadonlySet<number>,
    turn: number,
    undoBytes: number,
  ): RowLease {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const before = [...new Set(own.map((one) => one.ended))];
    const all = Promise.all([...before, ended]);
    for (const { tile } of own) this.#held.set(tile.id, { tile, ended: all });
    const change = (task: () => void) => {
      if (turn === this.#turn) task(); // R3
    };
    return {
      rows: { tiles: own.map(({ tile }) => tile), undoBytes },
      shards,
      exits: before.length === 0 ? undefined : Promise.all(before),
      put: (tiles) =>
        change(() => {
          for (const tile of tiles) this.#held.set(tile.id, { tile, ended });
        }),
      giveUp: () =>
        change(() => {
          for (const { tile } of own) this.#held.delete(tile.id);
        }),
      end,
    };
  }
}

/** The cut from which a generation goes on. */
function cutOf({ manifest }: GenerationSpec): CutId {
  return manifest === undefined ? initialCut : manifest;
}

/** The keeper of a device's rows; undefined: it keeps none. */
export function keeperOf(
  spec: GenerationSpec,
  rank: number,
  { tiles, undoBytes }: RowsToKeep,
): RowKeeper | undefined {
  if (undoBytes === 0) return undefined;
  const name = `${spec.generation}/${rank}`;
  return new RowKeeper({ given: tiles, at: cutOf(spec), undoBytes, name, rank });
}
